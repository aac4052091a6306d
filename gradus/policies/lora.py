"""LoRA on the decoder's linear layers, W + (alpha / rank) B A, in the file format of PEFT. DoRA also trains the norm of each row of the sum.

Reference: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, arXiv:2106.09685, section 4.1; Kalajdzievski, rsLoRA, arXiv:2312.03732; Liu et al.,
DoRA: Weight-Decomposed Low-Rank Adaptation, arXiv:2402.09353, eq. 5 and 11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradus.policies.config import read_json
from gradus.policies.decoder import Decoder
from gradus.policies.products import linear
from gradus.policies.quantised import Bits, Quantised
from gradus.types import Key, UserError

ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "qkv_proj", "gate_up_proj")
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."


@dataclass(frozen=True)
class LoRA:
    """The shape of an adapter."""

    rank: int = 8  # rank of the low-rank change, at least 1
    alpha: float = 16.0
    targets: tuple[str, ...] = ALL_LINEAR  # names of linear modules
    root: bool = False  # True: the scale is alpha / sqrt(rank) instead of alpha / rank
    magnitude: bool = False  # True: the norms of the weight's rows are trained separately from the directions of the rows (DoRA)

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise UserError(f"adapter: `rank` is {self.rank}; it must be 1 or more")
        unknown = sorted(set(self.targets) - set(ALL_LINEAR))
        if unknown or not self.targets:
            fault = f"no linear layer has the name {unknown[0]}" if unknown else "`targets` is empty, so it names no linear layer"
            raise UserError(f"adapter: {fault}; choose from {', '.join(ALL_LINEAR)}")

    @property
    def scale(self) -> float:
        return self.alpha / (self.rank**0.5 if self.root else self.rank)


class LoRALinear(nn.Module):
    """A linear layer with a frozen weight and a trained low-rank change. `weight` is the sum of the frozen weight and the change.

    The frozen weight shares memory with the adapted layer. With `bits`, the frozen weight is a quantised copy.
    """

    def __init__(self, replaced: nn.Linear, lora: LoRA, key: Key, bits: Bits | None = None) -> None:
        super().__init__()
        rows, columns = replaced.weight.shape
        self.base: nn.Parameter | Quantised
        self.base = nn.Parameter(replaced.weight.detach(), requires_grad=False) if bits is None else Quantised(replaced.weight, bits)
        self.bias = None if replaced.bias is None else nn.Parameter(replaced.bias.detach(), requires_grad=False)
        # PEFT's initial values: A is uniform in +-1/sqrt(columns), and B is zero. So the layer's function is unchanged at first.
        draws = (torch.from_numpy(key.uniform(lora.rank, columns)) * 2 - 1) / columns**0.5
        self.lora_A = nn.Parameter(draws.to(replaced.weight))
        self.lora_B = nn.Parameter(replaced.weight.new_zeros(rows, lora.rank))
        self.scale = lora.scale
        self.magnitude = nn.Parameter(norms(self._sum().detach())) if lora.magnitude else None

    def _sum(self) -> Tensor:
        """Returns the frozen weight plus the low-rank change, [rows, columns]."""
        frozen = self.base.dense if isinstance(self.base, Quantised) else self.base
        return torch.addmm(frozen, self.lora_B, self.lora_A, alpha=self.scale)

    @property
    def weight(self) -> Tensor:
        """Returns the layer's weight including its change, [rows, columns]. With magnitudes, the norm of the sum has no gradient (DoRA, eq. 11)."""
        found = self._sum()
        return found if self.magnitude is None else (self.magnitude / norms(found.detach()))[:, None] * found

    def forward(self, x: Tensor) -> Tensor:
        if self.magnitude is not None:
            return linear(x, self.weight, self.bias)
        change = linear(linear(x, self.lora_A), self.lora_B) * self.scale
        if isinstance(self.base, Quantised):
            y = self.base(x)
            return change + (y if self.bias is None else y + self.bias)
        return linear(x, self.base, self.bias) + change


def norms(weight: Tensor) -> Tensor:
    """Returns the norm of each row of a weight [rows, columns]: [rows]."""
    return weight.norm(dim=1)


def adapt(decoder: Decoder, lora: LoRA, key: Key, bits: Bits | None = None) -> Decoder:
    """Returns a decoder with a new adapter on the linear layers that `lora.targets` names.

    The other weights of the result are the frozen weights of `decoder`, in the same memory.

    With `bits`, the weights of the adapted layers are quantised copies. The embedding, the head and the norms are not quantised. Experts and routers of a
    mixture are
    not adapted.

    Raises: UserError if `decoder` already has an adapter.
    """
    if any(isinstance(m, LoRALinear) for m in decoder.modules()):
        raise UserError("this model already has an adapter; merge the adapter into the model first")
    with torch.device("meta"):
        adapted = decoder.empty()
    adapted.load_state_dict({name: p.detach() for name, p in decoder.named_parameters()}, assign=True)
    adapted.requires_grad_(False)
    for name, module in list(adapted.named_modules()):
        parent, _, leaf = name.rpartition(".")
        if leaf in lora.targets and isinstance(module, nn.Linear) and name.startswith("model."):  # a tower keeps its own layers
            setattr(adapted.get_submodule(parent), leaf, LoRALinear(module, lora, key.fold(name), bits))
    return adapted


def adapters(decoder: nn.Module) -> Iterator[tuple[str, LoRALinear]]:
    """Yields the adapted layers with their names."""
    return ((name, m) for name, m in decoder.named_modules() if isinstance(m, LoRALinear))


def merged(decoder: Decoder) -> Decoder:
    """Returns a decoder with the same outputs and no adapter: every change is added to the weight of its layer.

    A decoder without adapter is returned unchanged.
    """
    if next(adapters(decoder), None) is None:
        return decoder
    with torch.device("meta"):
        plain = decoder.empty()
    plain.load_state_dict(merged_weights(decoder), assign=True)
    return plain.requires_grad_(True)


@torch.no_grad()
def merged_weights(decoder: nn.Module) -> dict[str, Tensor]:
    """Returns copies of the weights, by the names that they have in a network without adapter."""
    changed = dict(adapters(decoder))
    own = {f"{name}.{leaf}" for name in changed for leaf in ("base", "lora_A", "lora_B", "magnitude")}
    weights = {name: parameter.detach().clone() for name, parameter in decoder.named_parameters() if name not in own}
    return weights | {f"{name}.weight": layer.weight.detach() for name, layer in changed.items()}


def save_adapter(decoder: nn.Module, lora: LoRA, folder: Path, base: str | None) -> None:
    """Writes adapter_config.json and adapter_model.safetensors in PEFT's format."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors, leaves = {}, set()
    for name, module in adapters(decoder):
        leaves.add(name.rpartition(".")[2])
        tensors[f"{_PREFIX}{name}.lora_A.weight"] = module.lora_A.detach().cpu().contiguous()
        tensors[f"{_PREFIX}{name}.lora_B.weight"] = module.lora_B.detach().cpu().contiguous()
        if module.magnitude is not None:
            tensors[f"{_PREFIX}{name}.lora_magnitude_vector"] = module.magnitude.detach().cpu().contiguous()
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": [leaf for leaf in lora.targets if leaf in leaves],
        "use_rslora": lora.root,
        "use_dora": lora.magnitude,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


# Options of PEFT that plain LoRA does not have. The listed values mean that the option is not in use.
_OFF: Mapping[str, Sequence[Any]] = {
    "fan_in_fan_out": (False, None),
    "bias": ("none", None),
    "modules_to_save": (None, []),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "layer_replication": (None,),
    "lora_bias": (False, None),
    "use_qalora": (False, None),
    "trainable_token_indices": (None,),
    "target_parameters": (None, []),
    "megatron_config": (None,),
}


def load_adapter(decoder: Decoder, folder: Path) -> tuple[Decoder, LoRA]:
    """Returns the decoder with the PEFT adapter in a folder, and the adapter's shape.

    Raises: UserError if the adapter is not plain LoRA (names the file and the field), or if a tensor does not fit (names the tensor).
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    config = read_json(folder / CONFIG)
    if config.get("peft_type") != "LORA":
        raise UserError(
            f"{folder / CONFIG}: `peft_type` is {config.get('peft_type')!r}; Gradus reads only adapters with the type LORA; take such an "
            "adapter, or a whole model"
        )
    for field, off in _OFF.items():
        if config.get(field) not in off:
            raise UserError(
                f"{folder / CONFIG}: {field} = {config[field]!r} is not supported; merge the adapter with peft and save the whole model"
            )
    try:
        tensors = load_file(folder / WEIGHTS, device=str(decoder.device))
    except (SafetensorError, OSError) as error:
        raise UserError(f"{folder / WEIGHTS} cannot be read ({error}); save the adapter again") from None
    names = sorted({name.removeprefix(_PREFIX).rsplit(".lora_", 1)[0] for name in tensors})
    known = dict(decoder.named_modules())
    foreign = [n for n in names if not isinstance(known.get(n), nn.Linear) or n.rpartition(".")[2] not in ALL_LINEAR]
    if foreign or not names:
        fault = f"{foreign[0]} is not a linear layer of this model" if foreign else "the file has no tensors of an adapter"
        raise UserError(f"{folder / WEIGHTS}: {fault}; take the adapter that belongs to this model")
    root = bool(config.get("use_rslora", False))
    leaves = {name.rpartition(".")[2] for name in names}
    shape = tuple(leaf for leaf in ALL_LINEAR if leaf in leaves)
    lora = LoRA(int(config["r"]), float(config["lora_alpha"]), shape, root, bool(config.get("use_dora", False)))
    adapted = adapt(decoder, lora, Key())
    for name, module in adapters(adapted):
        parts = {"A.weight": module.lora_A, "B.weight": module.lora_B}
        for part, parameter in (parts if module.magnitude is None else {**parts, "magnitude_vector": module.magnitude}).items():
            tensor = tensors.get(f"{_PREFIX}{name}.lora_{part}")
            if tensor is None or tensor.shape != parameter.shape:
                found = "missing" if tensor is None else f"of shape {list(tensor.shape)}, not {list(parameter.shape)}"
                raise UserError(f"{folder / WEIGHTS}: {name}.lora_{part.removesuffix('.weight')} is {found}; take the adapter that belongs to this model")
            with torch.no_grad():
                parameter.copy_(tensor)
    return adapted, lora
