"""Formulas in every language: brackets where they are needed, and nowhere else."""

import pytest

from roofline.numbers.operations import maximum, minimum, where
from roofline.support.errors import BadInput
from roofline.symbolic.graph import LOOP, Graph
from roofline.symbolic.programs import JAVASCRIPT, LANGUAGES, LATEX, PYTHON, SPREADSHEET, TEXT, text_of

NESTS = {
    TEXT.name: "max(a, b, c, min(a, b))",
    LATEX.name: r"\max\left(a, b, c, \min\left(a, b\right)\right)",
    SPREADSHEET.name: "MAX(a,b,c,MIN(a,b))",
    JAVASCRIPT.name: "Math.max(a, b, c, Math.min(a, b))",
}


def letters():
    graph = Graph()
    return [graph.input(name) for name in "abc"]


def test_a_nest_of_maxima_is_one_call_and_an_iteration_no_formula():
    for language in [language for language in LANGUAGES if language is not PYTHON]:
        a, b, c = letters()
        assert text_of(maximum(maximum(a, b), maximum(c, minimum(a, b))), language) == NESTS[language.name]
    for language in LANGUAGES:
        a, _, _ = letters()
        with pytest.raises(BadInput, match=f"{language.name} has no formula for an iteration"):
            text_of(a.graph.node(LOOP, a) + 1.0, language)


def test_nests_numbers_truths_and_texts_are_written_as_the_language_does():
    a, b, c = letters()
    inner = maximum(a, b)
    text = text_of(maximum(inner, c), TEXT, lambda node: "inner" if node is inner else None)
    assert text == "max(inner, c)"
    a, _, _ = letters()
    assert text_of(a * -2.0, SPREADSHEET) == "a*(-2)"
    assert text_of(a * -2.0, TEXT) == "a * -2"
    assert text_of((-a) ** 2.0, TEXT) == "(-a)**2"
    assert text_of((-a) ** 2.0, SPREADSHEET) == "POWER(0-a,2)"
    a, b, _ = letters()
    assert text_of(where(a < b, 1.0, a), SPREADSHEET) == "IF(a<b,1,a)"
    assert text_of(where(a < b, True, a), SPREADSHEET) == "IF(a<b,TRUE,a)"
    a, b, _ = letters()
    assert text_of(where(a < b, 'say "a"', ""), SPREADSHEET) == 'IF(a<b,"say ""a""","")'
