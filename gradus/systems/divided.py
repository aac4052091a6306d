"""The part of a player in one process: parts of the weights, of the gradients and of the optimiser's moments. FSDP2 of PyTorch (`fully_shard`) divides and
gathers the tensors.

Every tensor is cut along its first dimension into one part per process. Before a layer computes, its parts are gathered. After that the whole layer is freed.
In the backward pass the gradients of all processes are added, and each process keeps only its part of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradus.players.learner import Learner, held
from gradus.policies.decoder import Decoder
from gradus.policies.sighted import Sighted
from gradus.systems.together import group_of
from gradus.types import Context, Key, UserError
from gradus.types.signals import Want
from gradus.updates.forward_backward import Rows, evaluated


class Pass(nn.Module):
    """One pass of a policy as a call of a module. This is necessary because FSDP gathers the weights at the call of a module."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.network, self.policy = policy.network, policy

    def forward(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key) -> dict[Want, Tensor]:
        return dict(evaluated(self.policy, contexts, wants, key))


class Part:
    """A player's part in this process. `whole` is the undivided policy, whose weights exist only between `gather` and `drop`."""

    def __init__(self, learner: Learner, mesh: Any) -> None:
        self.learner, self.full = learner, False
        self.network = learner.policy.network  # its parameters are the parts
        self.whole = learner.policy.clone()
        _empty(self.whole.network)
        self.root = _divided(learner.policy, mesh)
        learner.bind()

    @property
    def size(self) -> int:
        """Returns the bytes of this process's parts of the weights, of the float32 copies and of the moments."""
        tensors = [*self.network.parameters(), *(m for m in self.learner.masters if self.learner.masters is not self.learner.parameters)]
        tensors += [t for state in (self.learner.optimizer.state.values() if self.learner.learns else ()) for t in state.values()]
        return sum(held(t).nbytes for t in tensors)

    def rows(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key) -> Rows:
        """Returns the rows of one micro-batch. All processes call this at the same time, each with its own micro-batch."""
        self.drop()
        rows: Rows = self.root(contexts, wants, key)
        return rows

    def backward(self, rows: Rows, slopes: Rows | None) -> None:
        """Adds the gradient of sum(slope * row) of all processes to the gradients of the parts.

        A missing slope counts as zeros, because all processes must gather the same layers in the same order.
        """
        moving = [row for row in rows.values() if row.requires_grad]
        given = [None if slopes is None else slopes.get(want) for want, row in rows.items() if row.requires_grad]
        if moving:
            pairs = zip(moving, given, strict=True)
            torch.autograd.backward(moving, [torch.zeros_like(row) if slope is None else slope.to(row) for row, slope in pairs])

    @torch.no_grad()
    def gather(self) -> None:
        """Gives `whole` its weights. All processes call this at the same time."""
        if self.full:
            return
        parts, found = dict(self.network.named_parameters(remove_duplicate=False)), dict[int, nn.Parameter]()
        for module, attribute, name in _places(self.whole.network):
            part = parts[name]
            if id(part) not in found:
                found[id(part)] = nn.Parameter(part.full_tensor(), requires_grad=False)
            setattr(module, attribute, found[id(part)])
        self.full = True

    def drop(self) -> None:
        """Frees the weights of `whole`."""
        if self.full:
            _empty(self.whole.network)
            self.full = False

    def changed(self) -> None:
        """Deletes all values that were computed from the old weights. The caller must call this method after every change of the parts."""
        self.drop()
        _forget_pictures(self.network)

    def tensors(self) -> dict[str, Tensor]:
        """Returns this process's parts of the tensors of a checkpoint."""
        others, self.learner.others = self.learner.others, None
        try:
            return {name: held(t) for name, t in self.learner.tensors().items()}
        finally:
            self.learner.others = others

    @torch.no_grad()
    def put(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Sets the parts from the same parts of the tensors of a checkpoint."""
        learner, weights = self.learner, self.network.state_dict()
        learner.updates = updates
        for name, t in tensors.items():
            if name.startswith("weights."):
                held(weights[name.removeprefix("weights.")]).copy_(t)
        if learner.learns:
            learner.optimizer.state.clear()
            for index, p in enumerate(learner.masters):
                prefix = f"optimizer.{index}."
                if state := {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}:
                    learner.optimizer.state[p] = {n: _as_part(t, p) for n, t in state.items()}
                if learner.masters is not learner.parameters:
                    held(p).copy_(tensors[f"masters.{index}"])
        self.changed()


def mesh_of(device: str, size: int) -> Any:
    """Connects the processes for FSDP. All processes call this at the same time."""
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh.from_group(group_of(device, size), torch.device(device).type)


def cut(tensors: Mapping[str, Tensor], divided: set[str], rank: int, size: int) -> dict[str, Tensor]:
    """Returns the tensors of process `rank`. A tensor in `divided` is cut into rows, as FSDP cuts it. Every other tensor stays whole."""

    def part(t: Tensor) -> Tensor:
        rows = -(-len(t) // size)
        return t[rows * rank : rows * (rank + 1)]

    return {name: part(t) if name in divided else t for name, t in tensors.items()}


def joined(parts: Sequence[Mapping[str, Tensor]], divided: set[str]) -> dict[str, Tensor]:
    """Returns the whole tensors from the parts of all processes, in order of their ranks."""
    first = parts[0]
    return {name: torch.cat([p[name].to(t.device) for p in parts]) if name in divided else t for name, t in first.items()}


def _divided(policy: Any, mesh: Any) -> Any:
    """Divides the network of a policy, and returns the module of its passes. Each layer of the built-in decoder is gathered by itself."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    root = Pass(policy)
    wide = MixedPrecisionPolicy(reduce_dtype=torch.float32 if any(p.dtype == torch.bfloat16 for p in root.parameters()) else None)
    layers = [layer for module in root.modules() if isinstance(module, Decoder) for layer in module.layers]
    module: Any
    for module in (*layers, root):
        fully_shard(module, mesh=mesh, mp_policy=wide, reshard_after_forward=True)
        if not hasattr(module, "set_reduce_scatter_unused_params"):
            raise UserError(f"system Sharded needs PyTorch 2.13 or newer, but this is {torch.__version__}; install a newer torch, or leave out --system")
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
    module.set_reduce_scatter_unused_params(True)  # set at the root, it applies to all modules
    return root


def _places(network: nn.Module) -> Iterator[tuple[nn.Module, str, str]]:
    """Yields (module, attribute, name) for every parameter of a network."""
    for prefix, module in network.named_modules():
        for attribute, p in list(module._parameters.items()):
            if p is not None:
                yield module, attribute, f"{prefix}.{attribute}" if prefix else attribute


def _empty(network: nn.Module) -> None:
    """Removes the weights from a network. The names, shapes and types of the weights remain."""
    for module, attribute, _ in _places(network):
        p = getattr(module, attribute)
        setattr(module, attribute, nn.Parameter(torch.empty_like(p, device="meta"), requires_grad=False))
    _forget_pictures(network)


def _forget_pictures(network: nn.Module) -> None:
    """Removes encoded pictures. A network stores them under the addresses of the weights; after a gather, other weights can have these addresses."""
    for module in network.modules():
        if isinstance(module, Sighted):
            module.encoded.clear()


def _as_part(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Divides a moment in the same way as its parameter. Single numbers, such as the number of steps, stay unchanged."""
    if not tensor.ndim:
        return tensor.clone()
    made = torch.zeros_like(parameter.detach(), dtype=tensor.dtype)
    held(made).copy_(tensor)
    return made
