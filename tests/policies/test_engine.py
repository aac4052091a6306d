"""The engine: equal bits in any company, agreement with the plain forward and with transformers, resumption, and every way to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradus.policies import compiled, decoding, engine
from gradus.policies.config import decoder_config
from gradus.policies.decoder import Decoder
from gradus.policies.engine import Job, Sampled, generate, open_batch, stop_reached
from gradus.policies.kernels import kernels
from gradus.policies.loading import load_decoder
from gradus.types import Ended, Key, Sampling, UserError, uniforms
from tests.policies.full_forward import Plain

torch.set_num_threads(1)
VOCAB = 61
KINDS = [("llama", 2, torch.float32), ("qwen2", 1, torch.float32), ("qwen2", 2, torch.bfloat16), ("qwen3", 1, torch.bfloat16)]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456 \n"


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test with the compiled step, and with PyTorch's operations alone."""
    if request.param == "plain":
        monkeypatch.setattr(engine, "fits", lambda fused: False)
    elif kernels() is None:
        pytest.skip("the kernels were not built; a C compiler was missing")
    return request.param


def text(tokens: np.ndarray) -> str:
    return "".join(LETTERS[t] for t in tokens)


def decoder(family: str = "llama", kv_heads: int = 2, dtype: torch.dtype = torch.float32, **more: Any) -> Decoder:
    fields = {
        "model_type": family,
        **{"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 72, "num_hidden_layers": 2, "num_attention_heads": 2},
        **{"num_key_value_heads": kv_heads, "head_dim": 16, "tie_word_embeddings": family != "llama", "initializer_range": 0.2},
    }
    return Decoder(decoder_config({**fields, **more})).initialise(Key(3)).to(dtype)


def sample(network: Any, jobs: list[Job], **more: Any) -> list[Sampled]:
    return generate(network, jobs, **{"end_tokens": (0,), "decode_text": text, "max_context": 160, **more})


def mixed_jobs(count: int) -> list[Job]:
    """Prompts of 1 to 70 tokens, shared by one to four jobs; 1 to 40 new tokens; six kinds of sampling; a stop string here and there."""
    rng, jobs = np.random.default_rng(5), []
    while len(jobs) < count:
        prefix = rng.integers(1, VOCAB, rng.integers(1, 71)).astype(np.int32)
        for _ in range(rng.integers(1, 5)):
            kind = [{}, {"temperature": 0.6}, {"temperature": 0.0}, {"top_k": 5}, {"top_p": 0.8}, {"min_p": 0.05}][len(jobs) % 6]
            stops = ("a", "xy") if len(jobs) % 5 == 0 else ()
            jobs.append(Job(prefix, Sampling(**kind, max_tokens=int(rng.integers(1, 41)), stops=stops), Key(9).fold(len(jobs)).value))
    return jobs[:count]


def same(a: list[Sampled], b: list[Sampled]) -> bool:
    def raw(s: Sampled) -> tuple[bytes, bytes, Ended]:
        return s.tokens.tobytes(), s.logprobs.tobytes(), s.ended

    return [raw(s) for s in a] == [raw(s) for s in b]


@pytest.mark.parametrize(("family", "kv_heads", "dtype"), KINDS)
def test_200_requests_are_equal_alone_in_company_and_in_another_order(family: str, kv_heads: int, dtype: torch.dtype):
    network, jobs = decoder(family, kv_heads, dtype), mixed_jobs(200)
    company = sample(network, jobs)
    assert {s.ended for s in company} == {Ended.STOP, Ended.LENGTH}
    assert same(company, sample(network, jobs[::-1])[::-1])
    order = np.random.default_rng(1).permutation(200)
    shuffled = sample(network, [jobs[i] for i in order], rows=32)  # in waves: slots are taken again while others go on
    assert same([company[i] for i in order], shuffled)
    some = range(0, 200, 1 if family == "llama" else 4)
    assert same([company[i] for i in some], [sample(network, [jobs[i]])[0] for i in some])


def test_a_context_of_many_pieces_is_as_exact():
    network = decoder("llama", 1, num_attention_heads=4)
    rng = np.random.default_rng(0)
    jobs = [Job(rng.integers(1, VOCAB, n).astype(np.int32), Sampling(max_tokens=12), n) for n in (3, 250, 263, 505, 530, 700)]
    company = sample(network, jobs, max_context=1024)
    assert same(company, [sample(network, [job], max_context=1024)[0] for job in jobs])


def test_where_no_length_is_exact_whole_slots_are_read(monkeypatch: pytest.MonkeyPatch):
    network, jobs = decoder(), mixed_jobs(12)
    monkeypatch.setattr(engine, "fits", lambda fused: False)
    usual = sample(network, jobs)
    monkeypatch.setattr(decoding, "stable_step", lambda *_: None)
    read: list[int] = []
    monkeypatch.setattr(decoding, "segments", lambda lengths, step: read.append(step) or [(0, len(lengths), step)])
    company = sample(network, jobs)
    assert set(read) == {192}  # 160 places, rounded up to a multiple of 64, whatever the jobs
    assert same(company, [sample(network, [job])[0] for job in jobs])
    assert [s.tokens.tolist() for s in company] == [s.tokens.tolist() for s in usual]


@pytest.mark.parametrize(("family", "kv_heads"), [("llama", 2), ("llama", 1), ("qwen2", 2), ("qwen3", 1)])
def test_log_probabilities_are_those_of_a_full_forward(family: str, kv_heads: int):
    network, jobs = decoder(family, kv_heads), mixed_jobs(40)
    with torch.no_grad():
        for job, found in zip(jobs, sample(network, jobs), strict=True):
            sequence = torch.from_numpy(np.concatenate([job.prefix, found.tokens]).astype(np.int64))
            tempered = network(sequence[None])[0] / (job.sampling.temperature or 1.0)
            at = torch.arange(len(job.prefix), len(sequence))
            expected = tempered.log_softmax(-1)[at - 1, sequence[at]]
            assert np.abs(expected.numpy() - found.logprobs).max() < 1e-5


@pytest.mark.parametrize(("family", "kv_heads"), [("llama", 2), ("qwen2", 1), ("qwen3", 1), ("mistral", 2), ("gemma2", 1)])
def test_bfloat16_is_near_its_own_full_forward(family: str, kv_heads: int):
    network, jobs, gaps = decoder(family, kv_heads, torch.bfloat16, **({"sliding_window": 24} if family == "mistral" else {})), mixed_jobs(40), []
    with torch.no_grad():
        for job, found in zip(jobs, sample(network, jobs), strict=True):
            sequence = torch.from_numpy(np.concatenate([job.prefix, found.tokens]).astype(np.int64))
            tempered = network(sequence[None])[0].float() / (job.sampling.temperature or 1.0)
            at = torch.arange(len(job.prefix), len(sequence))
            gaps.append(np.abs(tempered.log_softmax(-1)[at - 1, sequence[at]].numpy() - found.logprobs))
    assert np.concatenate(gaps).mean() < 0.02  # a logit of 4 is rounded by up to 2^-7


def test_tokens_are_the_keyed_inverse_draws_of_the_full_forward():
    network = decoder()
    job = Job(np.array([7, 8, 9], np.int32), Sampling(max_tokens=30), key=77)
    [found] = sample(network, [job], end_tokens=())
    sequence = torch.from_numpy(np.concatenate([job.prefix, found.tokens]).astype(np.int64))
    with torch.no_grad():
        p = network(sequence[None])[0].double().softmax(-1)
    positions = np.arange(3, 33)
    expected = [int((p[at - 1].cumsum(0) <= u).sum()) for at, u in zip(positions, uniforms(np.uint64(77), positions), strict=True)]
    assert found.tokens.tolist() == expected


def test_greedy_is_the_argmax_of_transformers(tmp_path: Path):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        **{"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
        **{"num_key_value_heads": 2, "initializer_range": 0.3, "tie_word_embeddings": False},
    )
    theirs = LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    prompts = [np.arange(1, n, dtype=np.int32) for n in (2, 9, 33, 50)]
    found = sample(load_decoder(tmp_path), [Job(p, Sampling(temperature=0, max_tokens=25), 0) for p in prompts], end_tokens=())
    for prompt, sampled in zip(prompts, found, strict=True):
        sequence = torch.from_numpy(np.concatenate([prompt, sampled.tokens]).astype(np.int64))
        with torch.no_grad():
            logits = theirs(sequence[None]).logits[0, len(prompt) - 1 : -1]
        assert logits.argmax(-1).tolist() == sampled.tokens.tolist()
        top = logits.log_softmax(-1).amax(-1).numpy()
        assert np.abs(top - sampled.logprobs).max() < 1e-5


def test_a_sequence_cut_anywhere_goes_on_alike():
    network = decoder("qwen3", 1)
    whole = Job(np.arange(1, 20, dtype=np.int32), Sampling(max_tokens=60, top_p=0.9), 1234)
    [full] = sample(network, [whole], end_tokens=())
    cuts = [1, 2, 13, 14, 45, 59]
    jobs = [
        Job(np.concatenate([whole.prefix, full.tokens[:k]]), Sampling(max_tokens=60 - k, top_p=0.9), 1234)  # same key, same positions
        for k in cuts
    ]
    for k, rest in zip(cuts, sample(network, jobs, end_tokens=()), strict=True):
        assert rest.tokens.tolist() == full.tokens[k:].tolist()
        assert np.abs(rest.logprobs - full.logprobs[k:]).max() < 1e-5


def test_keys_differ_and_equal_keys_agree():
    prefix = np.array([5, 6], np.int32)
    a, b, c = sample(decoder(), [Job(prefix, Sampling(max_tokens=20), key) for key in (1, 2, 1)], end_tokens=())
    assert a.tokens.tolist() == c.tokens.tolist() != b.tokens.tolist()


def test_a_prefix_is_read_once_for_all_its_jobs(monkeypatch: pytest.MonkeyPatch):
    read: list[int] = []
    plain = decoding.Fused.read

    def counted(self: Any, prefixes: Any, given: Any = ()) -> Any:
        read.extend(len(p) for p in prefixes)
        return plain(self, prefixes, given)

    monkeypatch.setattr(decoding.Fused, "read", counted)
    prompts = [np.arange(1, n, dtype=np.int32) % VOCAB for n in (4, 40, 41, 9, 100)]
    jobs = [Job(p, Sampling(max_tokens=5), 10 * i + j) for j in range(6) for i, p in enumerate(prompts)]
    sample(decoder(), jobs, rows=8)
    assert sorted(read) == [3, 8, 39, 40, 99]


def test_weights_are_those_of_the_moment_of_the_call():
    network, job = decoder(), Job(np.array([3], np.int32), Sampling(max_tokens=20), 5)
    before = sample(network, [job])
    with torch.no_grad():
        network.model.layers[0].mlp.up_proj.weight.neg_()  # type: ignore[union-attr, operator]
    changed = sample(network, [job])
    assert not same(before, changed)
    with torch.no_grad():
        network.model.layers[0].mlp.up_proj.weight.neg_()  # type: ignore[union-attr, operator]
    assert same(before, sample(network, [job]))
    assert all(p.requires_grad and not p.is_inference() for p in network.parameters())


def test_every_way_to_end():
    network, prefix = decoder(), np.arange(1, 31, dtype=np.int32)
    [free] = sample(network, [Job(prefix, Sampling(max_tokens=40), 6)], end_tokens=())
    assert (len(free.tokens), free.ended) == (40, Ended.LENGTH)
    third = int(free.tokens[2])
    first = free.tokens.tolist().index(third)
    [stopped] = sample(network, [Job(prefix, Sampling(max_tokens=40), 6)], end_tokens=(third, 10**6, -1))
    assert (stopped.tokens.tolist(), stopped.ended) == (free.tokens[: first + 1].tolist(), Ended.STOP)
    [cut] = sample(network, [Job(prefix, Sampling(max_tokens=40), 6)], end_tokens=(), max_context=35)
    assert (cut.tokens.tolist(), cut.ended) == (free.tokens[:5].tolist(), Ended.CONTEXT)
    [both] = sample(network, [Job(prefix, Sampling(max_tokens=5), 6)], end_tokens=(), max_context=35)
    assert both.ended is Ended.LENGTH
    stop = text(free.tokens[4:7])
    at = text(free.tokens).index(stop) + len(stop)
    [string] = sample(network, [Job(prefix, Sampling(max_tokens=40, stops=("\n\n", stop)), 6)], end_tokens=())
    assert (string.tokens.tolist(), string.ended) == (free.tokens[:at].tolist(), Ended.STOP)
    assert string.logprobs.tobytes() == free.logprobs[:at].tobytes()


def test_a_stop_string_is_found_at_any_cut_and_only_once_there():
    pieces = ["He", "llo", "", " wor", "ld", "\ufffd", "!", " and so on"]

    def decode(tokens: np.ndarray) -> str:
        return "".join(pieces[t] for t in tokens)

    long = np.array([7] * 50 + [0, 1, 2, 2, 2, 3, 4], np.int32)
    assert stop_reached(long, ("Hello world",), decode)
    assert not stop_reached(long[:-1], ("Hello world",), decode)
    empty = np.array([0, 1] + [2] * 40 + [3, 4], np.int32)  # tokens without text between: the window grows until it holds enough
    assert stop_reached(empty, ("llo w",), decode)
    assert not stop_reached(empty, (), decode)
    assert not stop_reached(empty, ("worlds", "Hello  world"), decode)


def test_prompts_that_do_not_fit_are_named():
    with pytest.raises(UserError, match="prompt of 160 tokens leaves no room for an answer in the model's context of 160 tokens"):
        sample(decoder(), [Job(np.ones(160, np.int32), Sampling(), 0)])
    [last] = sample(decoder(), [Job(np.ones(159, np.int32), Sampling(), 0)], end_tokens=())
    assert (len(last.tokens), last.ended) == (1, Ended.CONTEXT)
    with pytest.raises(UserError, match="a prompt has no tokens"):
        sample(decoder(), [Job(np.zeros(0, np.int32), Sampling(), 0)])
    assert sample(decoder(), []) == []


def test_other_networks_go_token_by_token_to_the_same_result():
    network, jobs = decoder(), mixed_jobs(25)
    for fast, plain in zip(sample(network, jobs), sample(Plain(network), jobs), strict=True):
        assert (fast.tokens.tolist(), fast.ended) == (plain.tokens.tolist(), plain.ended)
        assert np.abs(fast.logprobs - plain.logprobs).max() < 1e-5


@pytest.mark.parametrize("told", [True, False], ids=["the system says what is free", "it does not"])
def test_less_memory_means_fewer_slots_and_nothing_else(monkeypatch: pytest.MonkeyPatch, told: bool, step: str):
    network, jobs = decoder(), mixed_jobs(60)
    usual = sample(network, jobs)
    made: list[int] = []
    kind = compiled.CompiledCache if step == "compiled" else decoding.PlainCache
    plain = kind.__init__

    def noted(self: Any, fused: Any, count: int, **more: Any) -> None:
        made.append(count)
        plain(self, fused, count, **more)

    monkeypatch.setattr(kind, "__init__", noted)
    places = 48 if step == "compiled" else 112  # those of new tokens alone, or of prefixes too
    budget = 20 * 2 * 2 * 2 * 16 * 4 * places  # 20 slots: layers, sides, heads, width, bytes, places
    monkeypatch.setattr(engine, "CACHE_BYTES", budget)
    monkeypatch.setattr(engine, "free_memory", lambda device: 2 * budget if told else None)  # half of what is free
    assert same(usual, sample(network, jobs))
    assert max(made) == 16


def test_llama3_scaling_of_long_contexts_reaches_the_engine():
    rope = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    network = decoder(rope_parameters={**rope, "original_max_position_embeddings": 32})
    job = Job(np.arange(1, 60, dtype=np.int32), Sampling(temperature=0, max_tokens=9), 0)
    [found] = sample(network, [job], end_tokens=())
    sequence = torch.from_numpy(np.concatenate([job.prefix, found.tokens]).astype(np.int64))
    with torch.no_grad():
        assert network(sequence[None])[0, 58:-1].argmax(-1).tolist() == found.tokens.tolist()
    [unscaled] = sample(decoder(), [job], end_tokens=())
    assert unscaled.logprobs.tolist() != found.logprobs.tolist()


def joined(
    network: Decoder, jobs: list[Job], *, seed: int, rows: int = 24, leave: dict[int, int] | None = None, **more: Any
) -> list[Sampled]:
    """The jobs through an open batch, which each joins at a random moment; `leave`: jobs that leave after this many tokens."""
    rng, leave = np.random.default_rng(seed), leave or {}
    batch = open_batch(network, **{"end_tokens": (0,), "decode_text": text, "max_context": 160, "rows": rows, **more})
    order, numbers, found = rng.permutation(len(jobs)).tolist(), {}, {}
    while order or batch.busy:
        coming, order = order[: (n := int(rng.integers(0, 4)))], order[n:]
        numbers |= dict(zip(batch.add([jobs[i] for i in coming]), coming, strict=True))
        drawn = batch.step()
        assert batch.running <= rows
        for number, over in zip(drawn.numbers.tolist(), drawn.over.tolist(), strict=True):
            i = numbers[number]
            if over or (i in leave and (leave := {**leave, i: leave[i] - 1})[i] == 0):
                found[i] = batch.take(number)
    assert not batch.busy
    return [found[i] for i in range(len(jobs))]


def test_sequences_that_join_and_leave_a_running_batch_are_equal_to_alone():
    network, jobs = decoder(), mixed_jobs(120)
    alone = sample(network, jobs)
    for seed in (1, 2):
        assert same(alone, joined(network, jobs, seed=seed))
    shorter = dict.fromkeys(range(0, 120, 4), 3)
    for i, (whole, cut) in enumerate(zip(alone, joined(network, jobs, seed=3, leave=shorter), strict=True)):
        count = min(3, len(whole.tokens)) if i in shorter else len(whole.tokens)
        assert (cut.tokens.tobytes(), cut.logprobs.tobytes()) == (whole.tokens[:count].tobytes(), whole.logprobs[:count].tobytes())


@pytest.mark.parametrize(
    ("family", "fields"), [("qwen2", {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1}), ("qwen3", {})]
)
def test_a_cache_grows_under_running_sequences(family: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    network = decoder(family, 1, **fields)
    jobs = [Job(np.arange(1, 2 + n, dtype=np.int32), Sampling(max_tokens=m), n) for n, m in ((3, 9), (5, 40), (9, 90), (40, 60), (2, 120))]
    jobs += [Job(np.array([n], np.int32), Sampling(max_tokens=30), n) for n in range(1, 20)]
    alone = [sample(network, [job], end_tokens=())[0] for job in jobs]
    grown: list[int] = []
    for kind in (compiled.CompiledCache, decoding.PlainCache):
        monkeypatch.setattr(
            kind, "take_over", lambda self, other, used, plain=kind.take_over: grown.append(used) or plain(self, other, used)
        )
    assert same(alone, joined(network, jobs, seed=4, end_tokens=()))
    assert len(grown) > 2


def test_a_long_sequence_waits_until_the_memory_holds_it(monkeypatch: pytest.MonkeyPatch):
    network = decoder()
    jobs = [Job(np.array([n], np.int32), Sampling(max_tokens=12), n) for n in range(1, 13)] + [
        Job(np.array([9], np.int32), Sampling(max_tokens=140), 1)
    ]
    alone = sample(network, jobs, end_tokens=())
    monkeypatch.setattr(engine, "free_memory", lambda device: None)
    monkeypatch.setattr(engine, "CACHE_BYTES", 20 * 2 * 2 * 2 * 16 * 4 * 48)
    batch = open_batch(network, end_tokens=(), decode_text=text, max_context=160)
    numbers = batch.add(jobs[:12])
    batch.step()
    numbers += batch.add(jobs[12:])
    most, started = 0, False
    while batch.busy:
        drawn = batch.step()
        started = started or numbers[12] in drawn.numbers
        most = max(most, batch.running if started else 0)
    assert same(alone, [batch.take(n) for n in numbers])
    assert most == 1


def test_the_most_likely_tokens_are_those_of_the_full_forward():
    network = decoder()
    jobs = [
        Job(np.array([7, 8, n], np.int32), Sampling(max_tokens=6, temperature=t), n, likely)
        for n, t, likely in ((1, 0.5, 3), (2, 1.0, 0), (3, 0, 5))
    ]
    batch = open_batch(network, end_tokens=(), decode_text=text, max_context=160)
    numbers = batch.add(jobs)
    found: dict[int, list[Any]] = {n: [] for n in numbers}
    while batch.busy:
        for n, top in batch.step().likely.items():
            found[n].append(top)
    assert [len(found[n]) for n in numbers] == [6, 0, 6]
    for number, job in zip(numbers, jobs, strict=True):
        sequence = torch.from_numpy(np.concatenate([job.prefix, batch.take(number).tokens]).astype(np.int64))
        with torch.no_grad():
            rows = (network(sequence[None])[0, 2:-1] / (job.sampling.temperature or 1.0)).log_softmax(-1)
        for row, (ids, values) in zip(rows, found[number], strict=False):
            assert ids == row.topk(job.likely).indices.tolist()
            assert np.abs(row.topk(job.likely).values.numpy() - values).max() < 1e-5


def test_no_more_sequences_run_than_asked_for():
    network, jobs = decoder(), mixed_jobs(20)
    assert same(sample(network, jobs), joined(network, jobs, seed=1, rows=3))  # fewer than the smallest block has slots


def test_a_pause_returns_the_tokens_so_far():
    network, questions = decoder(), iter([False] * 3 + [True])
    jobs = [Job(np.array([5, 6, 7], np.int32), Sampling(max_tokens=n), i) for i, n in enumerate((2, 9, 9))]
    whole, parts = (sample(network, jobs, end_tokens=(), **more) for more in ({}, {"pause": lambda: next(questions)}))
    assert [len(part.tokens) for part in parts] == [2, 3, 3]
    assert [part.ended for part in parts] == [Ended.LENGTH] * 3  # an unfinished sequence was cut at its length
    assert all(part.tokens.tolist() == one.tokens[: len(part.tokens)].tolist() for part, one in zip(parts, whole, strict=True))
    assert [len(one.tokens) for one in sample(network, jobs, pause=lambda: True)] == [0, 0, 0]
