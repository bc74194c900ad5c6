import pytest

from checkpoints.errors import PlanError
from checkpoints.scopes import all_scopes, clean_scopes, in_scope, in_scopes, require_matches

NAMES = ["Net/Conv2d_1/weights", "Net/Conv2d_10/weights", "Net/Logits/weights", "Net/Logits/biases"]


def test_a_scope_matches_whole_path_parts():
    assert in_scope("Net/Conv2d_1/weights", "Net/Conv2d_1")
    assert not in_scope("Net/Conv2d_10/weights", "Net/Conv2d_1")
    assert in_scope("Net/Conv2d_1", "Net/Conv2d_1")
    assert not in_scope("Net", "Net/Conv2d_1")
    assert in_scopes("Net/Logits/biases", ["Other", "Net/Logits"])
    assert not in_scopes("Net/Logits/biases", [])


def test_blanks_trailing_slashes_and_repetitions_are_forgiven():
    assert clean_scopes([" Net/Logits", "Net/Aux/ ", "Net/Logits", "", "Net/Conv//"]) == (
        "Net/Logits",
        "Net/Aux",
        "Net/Conv",
    )


def test_all_scopes_are_listed_in_the_order_of_the_names():
    assert all_scopes(["a/b/w", "a/c"]) == ["a", "a/b", "a/b/w", "a/c"]


@pytest.mark.parametrize(
    ("scope", "near"),
    [
        ("Net/Logit", "Net/Logits"),
        ("Nett/Logits", "Net/Logits"),
        ("net/logits", "Net/Logits"),
        ("Net/Conv2d", "Net/Conv2d_1"),
    ],
)
def test_a_scope_without_a_variable_is_an_error_that_names_near_ones(scope, near):
    with pytest.raises(PlanError) as caught:
        require_matches([scope, "Net/Logits"], NAMES, "--trainable")
    assert caught.value.message.startswith("--trainable names a scope without a variable:")
    assert f"{scope} (near it: " in caught.value.message
    assert near in caught.value.message
    assert caught.value.next_step == (
        "Correct --trainable; slimtune plan without it shows all variables."
    )


def test_scopes_that_match_pass():
    require_matches(["Net", "Net/Conv2d_10", "Net/Logits/biases"], NAMES, "--exclude")
