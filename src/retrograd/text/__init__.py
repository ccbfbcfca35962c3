"""Text in and out: the tokenizer of a GGUF file, its chat template, loss masks and data sets."""

from retrograd.text.chat import ChatTemplate as ChatTemplate
from retrograd.text.chat import render_chat as render_chat
from retrograd.text.datasets import Dataset as Dataset
from retrograd.text.datasets import load_examples as load_examples
from retrograd.text.datasets import shuffled as shuffled
from retrograd.text.examples import IGNORED as IGNORED
from retrograd.text.examples import Example as Example
from retrograd.text.masks import tokenize_chat as tokenize_chat
from retrograd.text.masks import tokenize_completion as tokenize_completion
from retrograd.text.tokenizer import StreamDecoder as StreamDecoder
from retrograd.text.tokenizer import Tokenizer as Tokenizer
