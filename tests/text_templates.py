"""Chat templates written for the tests, each with the habit of a family that it is named after."""

SMOLLM2 = """\
{% for message in messages %}\
{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You help.<|im_end|>
' }}{% endif %}\
{{ '<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

# Looks at the first message before the loop, so it cannot render an empty conversation.
QWEN2_5 = """\
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'system' and loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

LLAMA3 = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

# Drops the thinking of turns before the last question; opens an empty one in the last answer.
THINKING = """\
{%- set last = namespace(question=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set last.question = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set answer = message.content.split('</think>')[-1].lstrip('\\n') %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and loop.index0 > last.question %}
        {%- set thought = '' %}
        {%- if '</think>' in message.content %}
            {%- set thought = message.content.split('</think>')[0].split('<think>')[-1] %}
        {%- endif %}
        {{- '<think>' + thought + '</think>\\n\\n' }}
    {%- endif %}
    {{- answer + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""

# No header for the assistant and no generation prompt.
INSTRUCT = """\
{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}\
{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}\
{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"""

# A header for the assistant, and add_generation_prompt ignored.
DEAF = """\
{% for message in messages %}\
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}\
{% endfor %}"""

# Marks what the model writes, without the end token; the answer is upper-cased, which a stand-in
# cannot place.
MARKED = """\
{% for message in messages %}{% if message.role == 'assistant' %}\
<|im_start|>assistant
{% generation %}{{ message.content | upper }}{% endgeneration %}<|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}{% endfor %}"""

# As above without the marks, and with the first message's text depending on the last.
OPAQUE = """\
{% for message in messages %}\
{{ '<|im_start|>' + messages[-1].content | length | string + '\\n' + message.content | upper }}\
<|im_end|>{% endfor %}"""

# Begins with the length of all contents, so that no part can be compared with the whole.
COUNTED = """\
{{ messages | map(attribute='content') | join | length }}
{% for message in messages %}{{ message.role }}: {{ message.content }}<|im_end|>{% endfor %}"""

# Never ends a turn.
ENDLESS = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
