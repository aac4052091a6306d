"""The language model as a policy: a network, its tokenizer and its folder, with the interface for rollout and update."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gradus.policies.config import end_tokens, read_json
from gradus.policies.config_json import config_json
from gradus.policies.decoder import Decoder
from gradus.policies.expert_files import to_files
from gradus.policies.foreign_eyes import ForeignEyes
from gradus.policies.gated import Gate, Gated, act_with_gate, inputs_of, latent_of, load_gate, save_gate
from gradus.policies.heads import Critic, Heads, load_head, save_head
from gradus.policies.jobs import Job, job_after, sampled_context
from gradus.policies.loading import check_folder, save_weights
from gradus.policies.lora import CONFIG, LoRA, adapt, load_adapter, merged_weights, save_adapter
from gradus.policies.micro import micro_batches
from gradus.policies.opened import OpenedDecoder, OpenedForeign
from gradus.policies.quantised import Bits
from gradus.policies.reading import check_offered, read
from gradus.policies.showing import Eyes, followed, opened, readable
from gradus.policies.sighted import Sighted, pictures
from gradus.policies.sighted_files import SightedFolder, sighted_weights
from gradus.policies.slots import in_slots
from gradus.policies.steering import load_steering, save_steering, steered, vectors
from gradus.policies.tokenizer import Tokenizer, load_tokenizer
from gradus.policies.transformers_model import Foreign
from gradus.policies.trunks import load_trunk
from gradus.runtime import hub
from gradus.types import Context, Key, UserError, following, prompt_context, told_context
from gradus.types.policy import Asked
from gradus.types.signals import Want
from gradus.types.slots import Slots
from gradus.types.spaces import Action, Choice, Observation, Space, Text, text_inserted

if TYPE_CHECKING:
    from gradus.policies.lockstep import Rows

_DTYPES = (torch.float32, torch.bfloat16, torch.float64)


@dataclass(frozen=True)
class Folder:
    """The contents of a model folder in addition to the weights. These files are kept, so that a saved model is complete."""

    source: str | None = None  # the folder from which the model was loaded
    config: Mapping[str, Any] = field(default_factory=dict)  # config.json; if empty, config.json is written from the decoder's configuration
    generation: bytes | None = None  # generation_config.json
    eyes: SightedFolder | None = None  # for a model that reads pictures: names of tensors, unused tensors, the processor's files


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal language model as a player's policy. An optimiser trains its `network`."""

    trunk: Decoder | Foreign
    tokenizer: Tokenizer | None
    end_tokens: tuple[int, ...]
    folder: Folder = Folder()
    head: Heads | None = None
    shared: bool = False  # True: the trunk belongs to another player, and the head gives no gradient to it
    lora: LoRA | None = None
    gate: Gate | None = None  # mixes latent inputs while the model thinks
    note: str | None = None  # the reason why the model runs through transformers; None: it runs in the built-in decoder
    graphs: bool = False  # whether decoding steps are captured as CUDA graphs and replayed
    recompute: int = 0  # above 0: the backward pass computes each layer again from its input, in this many parts (`pack.forward`); 0: all values are kept
    others: dict[str, Any] = field(default_factory=dict)  # the run's players by name, for divergences from them (`players.build.introduce`)

    @classmethod
    def load(cls, folder: str | Path, *, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> LanguageModel:
        """Loads the model in a folder. If the folder has only a PEFT adapter, the base model of this adapter is loaded with it.

        The network is the built-in decoder if this decoder implements the configuration. Else the network is a model of transformers, and `note` has the
        reason.

        Raises: UserError with the file and the remedy if the folder is missing, malformed or unsafe.
        """
        path = Path(folder)
        if (base := base_of(path)) is not None:
            return _adapted(path, base, dtype, device)
        path = check_folder(path)
        trunk, note, eyes = load_trunk(path, dtype=dtype, device=device)
        trunk = load_steering(trunk, path) if isinstance(trunk, Decoder) else trunk
        config, tokenizer = read_json(path / "config.json"), load_tokenizer(path)
        generation = path / "generation_config.json"
        raw = generation.read_bytes() if generation.is_file() else None
        ends = _end_tokens(config, read_json(generation) if raw else {}, tokenizer)
        head = load_head(path, _width(trunk), dtype=dtype, device=device)
        gate = load_gate(path, trunk.head_weight) if isinstance(trunk, Decoder) else None
        return cls(trunk, tokenizer, ends, Folder(str(path), config, raw, eyes), head, gate=gate, note=note)

    def save(self, folder: str | Path) -> None:
        """Writes safetensors, config.json and the tokenizer's files, which transformers loads unchanged.

        An adapter is merged into the weights, and also written to `adapter/` in PEFT's format. Heads, a gate and steering vectors get their own
        files.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        if isinstance(self.trunk, Foreign):
            self.trunk.inner.save_pretrained(path)
            if isinstance(self.trunk, ForeignEyes):
                self.trunk.processor.save_pretrained(path)
        else:
            weights = self._filed(merged_weights(self.trunk))
            save_weights({name: w.cpu().contiguous() for name, w in weights.items() if ".steer." not in name}, path)
            if next(vectors(self.trunk), None) is not None:
                save_steering(self.trunk, path)
            (path / "config.json").write_text(self._config_json(self.trunk), encoding="utf-8")
        for name, content in ({} if self.folder.eyes is None else self.folder.eyes.files).items():
            (path / name).write_bytes(content)
        if self.folder.generation is not None:
            (path / "generation_config.json").write_bytes(self.folder.generation)
        if self.tokenizer is not None:
            self.tokenizer.save(path)
        if self.head is not None:
            save_head(self.head, path)
        if self.gate is not None:
            save_gate(self.gate, path)
        if self.lora is not None:
            save_adapter(self.trunk, self.lora, path / "adapter", self.folder.source and str(Path(self.folder.source).resolve()))

    def _filed(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        assert isinstance(self.trunk, Decoder)
        if isinstance(self.trunk, Sighted):
            return sighted_weights(weights, self.trunk, self.folder.config["model_type"], self.folder.eyes)
        return to_files(weights, self.trunk.config)

    def _config_json(self, decoder: Decoder) -> str:
        if not self.folder.config:
            return config_json(decoder.config, decoder.dtype)
        name = "dtype" if "dtype" in self.folder.config else "torch_dtype"
        fields = {**self.folder.config, name: str(decoder.dtype).removeprefix("torch.")}
        return json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def network(self) -> nn.Module:
        """Returns the module that is trained and stored: the trunk with its gate and head, if there are any. If the trunk belongs to another player, the
        module is only the head."""
        if self.head is None:
            return self.trunk if self.gate is None else Gated(self.trunk, self.gate)
        return self.head if self.shared else Critic(self.trunk if self.gate is None else Gated(self.trunk, self.gate), self.head)

    @property
    def can(self) -> frozenset[str]:
        """Returns the abilities of the model.

        An ability is the name of a value that a forward pass can compute, or one of `fork`, `text`, `rules` (of drawing) and `served` (by vLLM). Each head
        and each of the other players (`others`) adds abilities, and the built-in decoder adds `pack` and `lora`. A model without a gate adds `slots`, and
        `pause` (between two tokens).
        """
        offers = {"logprobs", "entropy", "hidden", "states", "logits", "attention", "fork", "text", "served", "rules"}
        plain, own = {"slots", "pause"} if self.gate is None else set(), {"pack", "lora"} if isinstance(self.trunk, Decoder) else set()
        apart = {f"divergence:{way}:{name}" for name, other in self.others.items() if hasattr(other, "opened") for way in ("reverse", "forward")}
        return frozenset(offers | own | plain | apart | self._heads())

    def _heads(self) -> set[str]:
        """Returns the abilities of the model's heads: `head:NAME`, `row:NAME` for a head over the vocabulary, and `value` for a head `value`."""
        if self.head is None:
            return set()
        rows = set() if self.head.vocab is None else {f"row:{name}" for name in self.head.outputs}
        return rows | {f"head:{name}" for name in self.head.outputs} | ({"value"} if "value" in self.head.outputs else set())

    @property
    def reads(self) -> frozenset[str]:
        """Returns the kinds of input that the model reads: text, and pictures if it has a vision tower."""
        return frozenset({"text", "image"} if isinstance(self.trunk, Eyes) else {"text"})

    def acts(self, space: Space) -> bool:
        """Whether the model can act in the space. A language model can write text and the names of choices."""
        return isinstance(space, (Text, Choice))

    @property
    def context_length(self) -> int:
        """Returns the largest number of tokens in a sequence."""
        return self.trunk.config.context if isinstance(self.trunk, Decoder) else self.trunk.context_length

    # text

    def opening(self, prompt: Observation) -> Context:
        """Returns the prompt as a context with its media.

        The prompt is raw text, or messages in the form of the chat template with the start of the assistant's turn.
        """
        if isinstance(self.trunk, Eyes) and not isinstance(prompt, (str, Mapping)):
            return opened(self.trunk, self._tokenizer(), prompt)
        return prompt_context(self._tokenizer().tokens(readable(prompt)))

    def follow(self, observation: Observation, after: Context) -> Context:
        """Returns the tokens to append to the context `after`, as a context. These tokens end the assistant's turn, contain the observation and start the
        next turn.
        If `after` already ends with the end token, the result does not repeat it. An inserted observation (`types.spaces.inserted`) is only its text.
        """
        if (text := text_inserted(observation)) is not None:
            return prompt_context(self._tokenizer().encode(text, False))
        if isinstance(self.trunk, Eyes) and not isinstance(observation, (str, Mapping)):
            return followed(self.trunk, self._tokenizer(), observation, after)
        return following(self._tokenizer().follow(readable(observation)), after)

    def told(self, action: Action) -> Context:
        """Returns a given answer as a context to append: its text and the end token, as if the answer had been sampled."""
        if not isinstance(action, str):
            raise UserError(f"a language model got an action of type {type(action).__name__}; its actions must be text")
        tokenizer = self._tokenizer()
        end = tokenizer.end if tokenizer.end is not None else next(iter(self.end_tokens), None)
        return told_context([*tokenizer.encode(action, False), *([] if end is None else [end])])

    def said(self, context: Context, since: int) -> str:
        """Returns the text of the sequence from token `since` on, without special tokens."""
        return self.text(context.sequence[since:])

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Returns the text of tokens, without special tokens."""
        return self._tokenizer().text(tokens)

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise UserError(f'model folder "{self.folder.source}" has no tokenizer.json; save the tokenizer of the model in this folder with save_pretrained')
        return self.tokenizer

    # rollout

    def act(self, asked: Sequence[Asked], pause: Callable[[], bool] = bool) -> list[Context]:
        """Samples one context per request, in order. The parent of a sampled context is the context that it continues. `pause`: see `engine.generate`.

        The field `how` of a request may be a `Slots` object. Raises UserError for any other value. A token rule is not allowed here, because
        `lockstep.act_by_rule` draws by token rules.
        """
        hows = [getattr(getattr(a, "request", None), "how", None) for a in asked]
        if (how := next((h for h in hows if h is not None and not (isinstance(h, Slots) and self.gate is None)), None)) is not None:
            raise UserError(
                f"a language model{' with a gate' * (self.gate is not None)} cannot sample by {type(how).__name__}; set Request.how to a token rule with "
                "`players` and `logits`, or leave Request.how out"
            )
        if self.gate is not None:
            return act_with_gate(self, asked)
        from gradus.policies.engine import generate

        ends, text, most = self.end_tokens, self._tokenizer().text, self.context_length
        draw = partial(generate, self.trunk, end_tokens=ends, decode_text=text, max_context=most, graphs=self.graphs, pause=pause)
        sampled = in_slots([self._job(a) for a in asked], hows, draw)
        return [sampled_context(a, s) for a, s in zip(asked, sampled, strict=True)]

    def _job(self, asked: Asked) -> Job:
        job = job_after(asked.parent, asked.at, asked.sampling, asked.key.value)
        with torch.no_grad():  # otherwise the picture would be encoded again for every answer to it
            return replace(job, inputs=pictures(self.trunk, job.prefix, job.shown)) if job.shown else job

    def lockstep(self, longest: int, head: str | None = None) -> Rows:
        """Returns the model's rows for a token rule, for sequences of at most this length.

        The rows are the logits, or the outputs of a head over the vocabulary.
        """
        from gradus.policies.lockstep import rows_of

        return rows_of(self.trunk, longest, None if head is None else self.head, head)

    # update

    def micro_batches(self, contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
        """Returns micro-batches as indices of contexts. A micro-batch has at most `max_tokens` tokens, or only one longer context."""
        return micro_batches(contexts, max_tokens, shared=isinstance(self.trunk, Decoder))

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Any, Tensor]:
        """Returns, for each `Want`, a row per action, [A, ...], in order of the contexts. The rows have gradient if gradients are enabled.

        The rows are float32 (float64 for a float64 model). Log-probability, entropy and logits are at each context's own temperature. A `Want` that draws
        random numbers uses `key`.

        Raises: UserError for a `Want` that this model does not offer.
        """
        check_offered(wants, self.can, "this language model")
        if not any(c.actions for c in contexts):
            return {want: torch.zeros(0, device=self.trunk.device) for want in wants}
        return read(self.opened(contexts, frozenset().union(*(w.needed for w in wants))), wants, key or Key())

    def opened(self, contexts: Sequence[Context], opens: frozenset[str]) -> OpenedDecoder | OpenedForeign:
        """Opens one pass over the contexts. `opens` names the abilities that will be read."""
        if isinstance(self.trunk, Foreign):
            return OpenedForeign(self.trunk, contexts, self.head, trains=not self.shared, others=self.others)
        given = None
        if any(latent_of(c) is not None for c in contexts):
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self.shared):
                given = [inputs_of(c, self.trunk.embed, self.gate) for c in contexts]
        return OpenedDecoder(
            self.trunk, contexts, self.head, opens=opens, trains=not self.shared, recompute=self.recompute, given=given, others=self.others
        )

    # relations to other players

    def clone(self) -> LanguageModel:
        """Returns a copy with its own weights. All these weights can be trained, except the frozen weights of a model with an adapter or steering vectors."""
        trunk = copy.deepcopy(self.trunk)
        head, gate = copy.deepcopy(self.head), copy.deepcopy(self.gate)
        for part in (trunk, *([head] if head else []), *([gate] if gate else [])):
            part.zero_grad(set_to_none=True)
            if self.lora is None and (part is not trunk or next(vectors(trunk), None) is None):
                part.requires_grad_(True)
        return replace(self, trunk=trunk, head=head, gate=gate, shared=False)

    def with_gate(self, key: Key, *, c: float, least: float, most: float, mark: str) -> LanguageModel:
        """Returns this model with a gate on latent inputs. If the model was loaded with a gate, it keeps this gate.

        Raises UserError for a model that runs through transformers.
        """
        if not isinstance(self.trunk, Decoder):
            raise UserError(f"latent inputs need the built-in decoder, but {self.note or 'the model runs through transformers'}; take another model")
        gate = self.gate or Gate(_width(self.trunk), key, c=c, least=least, most=most, mark=mark, like=self.trunk.head_weight)
        return replace(self, gate=gate)

    def with_steering(self, layers: Sequence[int], gate: bool) -> LanguageModel:
        """Returns this model with a trainable vector per layer, added to the outputs of `layers` (empty: all layers). `gate`: see `steering`.

        The other weights are frozen, and share memory with this model.
        """
        if not isinstance(self.trunk, Decoder):
            raise UserError(f"steering vectors need the built-in decoder, but {self.note or 'the model runs through transformers'}; take another model")
        return replace(self, trunk=steered(self.trunk, layers, gate), head=None, shared=False)

    def beside(self) -> LanguageModel:
        """If the trunk belongs to another player, returns a copy with its own head on the same trunk. Otherwise returns a complete copy."""
        if not self.shared or self.head is None:
            return self.clone()
        return replace(self, head=copy.deepcopy(self.head).requires_grad_(True))

    def with_value_head(
        self, key: Key, *, shared: bool, outputs: tuple[str, ...] = ("value",), over: str = "action", hidden: int = 0, bias: bool = True
    ) -> LanguageModel:
        """Returns this model with heads of these names. If the model was loaded with such heads, it keeps them. With `shared`, the trunk still belongs to
        another player and gets no gradient.
        """
        form, kept = (outputs, None if over == "action" else self.vocabulary, hidden, bias), self.head
        if kept is None or (kept.outputs, kept.vocab, kept.layer, kept.biased) != form:
            like = self.trunk
            kept = Heads(_width(like), key, outputs, vocab=form[1], hidden=hidden, bias=bias, dtype=like.dtype, device=like.device)
        return replace(self, head=kept, shared=shared)

    @property
    def vocabulary(self) -> int:
        """Returns the number of tokens for which the output layer computes logits."""
        return self.trunk.config.vocab_size if isinstance(self.trunk, Decoder) else self.trunk.inner.config.get_text_config().vocab_size

    def with_adapter(self, rank: int, alpha: float, key: Key, bits: Bits | None = None, *, root: bool = False, magnitude: bool = False) -> LanguageModel:
        """Returns this model with a new LoRA adapter on every linear layer. `root`, `magnitude`: as in `LoRA`.

        The other weights are frozen, and share memory with this model. With `bits`, the adapted layers have quantised copies of their weights.
        """
        if not isinstance(self.trunk, Decoder):
            raise UserError(f"adapters need the built-in decoder, but {self.note or 'the model runs through transformers'}; take another model")
        lora = LoRA(rank, alpha, root=root, magnitude=magnitude)
        return replace(self, trunk=adapt(self.trunk, lora, key, bits), lora=lora, head=None, shared=False)


def base_of(folder: str | Path) -> str | None:
    """Returns the base model's folder if a folder has only a PEFT adapter, else None. Raises UserError if the base is not a model folder."""
    path = Path(folder)
    if not (path / CONFIG).is_file() or (path / "config.json").is_file():
        return None
    base = read_json(path / CONFIG).get("base_model_name_or_path")
    if not base or not (Path(base) / "config.json").is_file():
        way = hub.model(str(base))
        hint = f"; for a model of the Hugging Face Hub, {way}" if base and way else ""
        raise UserError(
            f"{path / CONFIG}: `base_model_name_or_path` is {base!r}, which is not a model folder on this machine; set it to the folder of the base model{hint}"
        )
    return str(base)


def _adapted(path: Path, base: str, dtype: torch.dtype, device: str | torch.device) -> LanguageModel:
    model = LanguageModel.load(base, dtype=dtype, device=device)
    if not isinstance(model.trunk, Decoder):
        raise UserError(
            f"{path}: an adapter needs a base model in the built-in decoder, but {model.note}; merge the adapter into its base with peft, and "
            "save the whole model"
        )
    trunk, lora = load_adapter(model.trunk, path)
    return replace(model, trunk=trunk, lora=lora)


def _end_tokens(config: Mapping[str, Any], generation: Mapping[str, Any], tokenizer: Tokenizer | None) -> tuple[int, ...]:
    """Returns the tokens that end a completion: the end tokens of generation_config.json (else of config.json), and the end token of the tokenizer."""
    stated = end_tokens(generation if "eos_token_id" in generation else config)
    return tuple(dict.fromkeys([*stated, *([tokenizer.end] if tokenizer is not None and tokenizer.end is not None else [])]))


def _width(trunk: Decoder | Foreign) -> int:
    return trunk.config.hidden_size if isinstance(trunk, Decoder) else trunk.inner.config.get_text_config().hidden_size
