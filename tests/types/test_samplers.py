"""Steps of samplers: hand numbers, the ODE as a limit, and the marginals that the SDE has to keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.types import UserError
from gradus.types.samplers import Ode, Sampler, Sde, sde_step


def test_spreads_by_hand():
    # a = 0.7, dt = 0.1: s sqrt(dt) = 0.7 sqrt(t / (1 - t)) sqrt(0.1) = 0.2214 sqrt(t / (1 - t)); the roots are 2, 1, 1/2
    assert [sde_step(t, 0.1, 0.7).spread for t in (0.8, 0.5, 0.2)] == pytest.approx([0.4427, 0.2214, 0.1107], abs=5e-5)


def test_a_step_by_hand():
    # t = 1/2, dt = 1/4, a = 1: s = 1, c = 1 * (1/4) / (2 * 1/2) = 1/4; pull = 3/4, gain = -1/4 - 1/4 * 1/2 = -3/8, spread = 1/2
    step = sde_step(0.5, 0.25, 1.0)
    assert (step.pull, step.gain, step.spread) == pytest.approx((0.75, -0.375, 0.5))


def test_at_pure_noise_the_next_time_stands_in():
    # 4 steps, t = 1: 1 - t is taken at t = 3/4, so s = a / sqrt(1/4) = 2 a; with a = 1 and dt = 1/4: c = 4/4/2 = 1/2, spread = 1
    first = Sde(steps=4, noise=1.0).path()[0]
    assert (first.time, first.pull, first.gain, first.spread) == pytest.approx((1.0, 0.5, -0.25, 1.0))


def test_times_run_from_noise_to_the_last_step_before_data():
    assert [s.time for s in Sde(4).path()] == [s.time for s in Ode(4).path()] == [1.0, 0.75, 0.5, 0.25]


@given(st.integers(1, 50))
def test_without_noise_the_sde_is_the_ode(steps):
    assert Sde(steps, 0.0).path() == Ode(steps).path()


def end_variance(sampler: Sampler, deviation: float) -> float:
    """Of samples drawn under the exact velocity of Gaussian data: x_t is Gaussian, so v(x, t) = k x with
    k = (t - (1 - t) deviation^2) / ((1 - t)^2 deviation^2 + t^2), and a step takes the variance V to (pull + gain k)^2 V + spread^2.
    """
    variance = 1.0
    for s in sampler.path():
        t = s.time
        k = (t - (1 - t) * deviation**2) / ((1 - t) ** 2 * deviation**2 + t**2)
        variance = (s.pull + s.gain * k) ** 2 * variance + s.spread**2
    return variance


@pytest.mark.parametrize("deviation", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("noise", [0.0, 0.7, 1.5])
def test_ode_and_sde_have_the_same_marginals(noise, deviation):
    # the error of Euler steps falls with their number, like a power of dt that is small where s is singular (t = 1)
    assert abs(end_variance(Sde(4000, noise), deviation) / deviation**2 - 1) < 0.005
    assert abs(end_variance(Sde(20000, noise), deviation) / deviation**2 - 1) < 0.0025


@pytest.mark.parametrize(
    ("make", "said"), [(lambda: Ode(0), "`steps` is 0"), (lambda: Sde(0), "`steps` is 0"), (lambda: Sde(5, -1), "`noise` is -1")]
)
def test_senseless_numbers_are_refused(make, said):
    with pytest.raises(UserError, match=said):
        make()
