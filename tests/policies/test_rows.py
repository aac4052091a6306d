from __future__ import annotations

import torch
from torch.testing import assert_close

from gradus.policies.rows import join_prefix, pad_rows, take_rows, unpad_rows


def made(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_taking_rows_adds_their_gradients():
    x = made(3, 2)
    rows = torch.tensor([2, 0, 2])
    out = take_rows(x, rows)
    assert_close(out, torch.stack([x[2], x[0], x[2]]))
    out.sum().backward()
    assert_close(x.grad, torch.tensor([[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]], dtype=torch.float64))


def test_padding_and_back():
    x = made(3, 2)
    slots, fill = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2, 0])  # lengths 2 and 1 in a rectangle of 2 x 2
    padded = pad_rows(x, slots, fill)
    assert_close(padded[:3], x)
    assert_close(unpad_rows(padded, slots), x)
    (padded * torch.tensor([[1.0], [2.0], [3.0], [100.0]])).sum().backward()  # what stands in the empty place is dropped
    assert_close(x.grad, torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], dtype=torch.float64))


def test_unpad_gives_gradient_to_the_rows_taken_only():
    x = made(4, 1)
    (unpad_rows(x, torch.tensor([3, 1])) * torch.tensor([[5.0], [7.0]])).sum().backward()
    assert_close(x.grad, torch.tensor([[0.0], [7.0], [0.0], [5.0]], dtype=torch.float64))


def test_joined_prefix_is_concatenation():
    prefix, own, owner = made(2, 3, 4), made(5, 2, 4, seed=1), torch.tensor([0, 1, 1, 0, 1])
    assert_close(join_prefix(prefix, owner, own), torch.cat([prefix[owner], own], 1))
    assert torch.autograd.gradcheck(lambda p, o: join_prefix(p, owner, o), (prefix, own))


def test_gradients_are_the_same_bits_twice():
    torch.use_deterministic_algorithms(True)
    try:
        rows = torch.randint(0, 50, (4000,), generator=torch.Generator().manual_seed(2))
        grads = []
        for _ in range(2):
            x = made(50, 33).detach().float().requires_grad_()
            take_rows(x, rows).sin().sum().backward()
            grads.append(x.grad.numpy().tobytes())
    finally:
        torch.use_deterministic_algorithms(False)
    assert grads[0] == grads[1]
