"""The paper of a recipe is read from its docstring, in each form that a reference may have."""

from __future__ import annotations

from gradus.recipe.reference import Reference, read_reference


def read(reference: str) -> Reference | None:
    return read_reference(
        f"Name: what it does.\n\nloss = arXiv:1111.11111, no reference\n\n{reference}\n\nOurs: arXiv:2222.22222 is apart."
    )


def test_a_reference_on_arxiv() -> None:
    found = read(
        "Reference: Doe et al. (Lab), On Steps, and\nmore Steps: a Study, arXiv:2401.00001, eq. 2 (0.5); then\nRoe, arXiv:2302.00002; 2302.00002."
    )
    assert found == Reference("Doe et al. (Lab)", "On Steps, and more Steps: a Study", 2024, "2401.00001", further=("2302.00002",))


def test_a_reference_elsewhere() -> None:
    assert read("References: Doe and Roe, On Steps, Some Journal 8, 1992. Ours: AdamW.") == Reference(
        "Doe and Roe", "On Steps", 1992, venue="Some Journal 8"
    )
    assert read("Reference: Roe, On Steps, 2019; Doe, More, arXiv:2401.00001.") == Reference(
        "Roe", "On Steps", 2019, further=("2401.00001",)
    )


def test_no_reference() -> None:
    assert read("It follows Doe et al., On Steps, arXiv:2401.00001.") is None
    assert read("Reference: see the web page.") is None
