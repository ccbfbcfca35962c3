"""One static graph of ops: values, builder, autodiff, verifier, rewrites and memory plan."""

from retrograd.graph.autodiff import differentiate as differentiate
from retrograd.graph.builder import Builder as Builder
from retrograd.graph.graph import Graph as Graph
from retrograd.graph.graph import Node as Node
from retrograd.graph.graph import Phase as Phase
from retrograd.graph.graph import Role as Role
from retrograd.graph.graph import Value as Value
from retrograd.graph.lora import Adapter as Adapter
from retrograd.graph.lora import add_lora as add_lora
from retrograd.graph.plan import Plan as Plan
from retrograd.graph.plan import plan as plan
from retrograd.graph.verify import verify as verify
