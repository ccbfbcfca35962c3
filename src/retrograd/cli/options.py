"""Options that commands derive from a model."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrograd.config.options import TrainingOptions
    from retrograd.gguf import GgufFile


MOST_POSITIONS = 32768  # a conversation on the command line is shorter; rotary tables cost memory


def scoring_options(file: "GgufFile") -> "TrainingOptions":
    """Training options for a model that is only asked: its own context, within reason.

    Raises:
        GgufError: the architecture or its geometry is refused.
    """
    from retrograd.config.options import TrainingOptions
    from retrograd.families import read_config, recognise

    context = read_config(file, recognise(file)).context
    return TrainingOptions(context=min(context, MOST_POSITIONS))
