"""The run document and the options it resolves to.

:mod:`retrograd.config.document` reads documents; it is not imported here because it needs pydantic,
which takes longer to import than ``import retrograd`` may.
"""

from retrograd.config.options import DataOptions as DataOptions
from retrograd.config.options import LoraOptions as LoraOptions
from retrograd.config.options import ModelOptions as ModelOptions
from retrograd.config.options import OptimizerOptions as OptimizerOptions
from retrograd.config.options import OutputOptions as OutputOptions
from retrograd.config.options import RunDocument as RunDocument
from retrograd.config.options import TrainingOptions as TrainingOptions
from retrograd.config.rules import OptionsError as OptionsError
