"""The strategies of the study, over a model with random weights: how each asks, and what counts as its answer."""

import json
from dataclasses import replace

import pytest
from sequences import finish

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.drafting import COMPLAINT
from runtime.errors import BudgetTooSmall, RequestRefused
from runtime.events import FinishReason
from runtime.request import Message
from runtime.study.answering import AskedQuestion, Asker
from runtime.study.lenient_parser import OutputFault
from runtime.study.output_grammars import NoGrammar, xgrammar_conversion
from runtime.study.questions import MISSING, Question
from runtime.study.strategies import STRATEGIES, strategies_for
from runtime.study.studied_model import StudiedModel
from toolspecs.tool import Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "s": {"type": "string", "enum": ["x", "y"]},
        "on": {"type": "boolean"},
    },
    "required": ["n"],
}


QUESTION = Question(
    (Message("user", "add 3"),),
    (Tool("add", "", SCHEMA), Tool("sub", "", SCHEMA)),
    "add",
    {"n": (3,), "s": ("x", MISSING), "on": (MISSING,)},
)


RIGHT = '<tool_call>\n{"name": "add", "arguments": {"n": 3}}\n</tool_call>'


BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}


@pytest.fixture(scope="module")
def subject(loaded):
    return StudiedModel(loaded)


def asked(subject, name, *, number=0, temperature=1.0, max_tokens=96, question=QUESTION):
    strategy = BY_NAME[name]
    prompt = tuple(subject.prompt(strategy.show(question)))
    grammar = strategy.grammar(subject, strategy.show(question))
    return AskedQuestion(subject, strategy, question, grammar, prompt, number, temperature, max_tokens)


def answered(subject, name, count=4, **options):
    questions = [asked(subject, name, number=number, **options) for number in range(count)]
    return list(Asker(subject, num_at_once=3).answer(questions))


def arguments_of(answer):
    return json.loads(answer.text.partition('"arguments": ')[2].removesuffix("}\n</tool_call>"))


class Script:
    """Plays the engine to one exchange: outputs are given."""

    def __init__(self, question):
        self.exchange = question.exchange()
        self.sequences = [next(self.exchange)]

    def write(self, subject, text, reason=FinishReason.STOP, fault=None):
        """The answer if the exchange is over."""
        sequence = self.sequences[-1]
        sequence.token_ids += subject.loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        sequence.finish(reason)
        try:
            self.sequences.append(self.exchange.send((self.sequences[-1], fault)))
        except StopIteration as end:
            return end.value
        return None


def test_a_retry_shows_the_latest_failure_and_all_attempts_are_counted(subject):
    script = Script(asked(subject, "complaint", number=7))
    assert script.write(subject, "I cannot do that.") is None
    assert script.write(subject, RIGHT.replace("3", "33")) is None
    answer = script.write(subject, RIGHT)
    first, second, third = script.sequences
    prompts = [subject.text(sequence.prompt_ids) for sequence in script.sequences]
    assert "I cannot do that." in prompts[1]
    assert "there is no call" in prompts[1]
    assert "I cannot do that." not in prompts[2]
    assert "33 is greater than the maximum of 9" in prompts[2]
    assert len({sequence.seed for sequence in script.sequences}) == 3
    assert answer.verdict.is_right
    assert answer.num_attempts == 3
    assert answer.num_tokens == first.num_output + second.num_output + third.num_output
    assert answer.num_prompt_tokens == sum(len(sequence.prompt_ids) for sequence in script.sequences)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_is_the_answer_if_it_is_valid_token_for_token_and_else_shown(subject, temperature):
    def drafted(text):
        script = Script(asked(subject, "draft", temperature=temperature))
        for token_id in subject.loaded.tokenizer(text, add_special_tokens=False)["input_ids"]:
            assert script.sequences[0].matcher.accept(token_id)
        return script, script.write(subject, text)

    script, answer = drafted(RIGHT)
    assert (answer.num_attempts, answer.verdict.is_right, script.sequences[0].closer) == (1, True, None)
    script, answer = drafted(RIGHT.replace(": ", " : "))  # it parses, but no mask would let it pass
    assert answer is None
    shown = subject.text(script.sequences[1].prompt_ids)
    assert '"arguments" : {"n" : 3}' in shown
    assert COMPLAINT in shown
    assert script.sequences[1].closer is not None
    assert script.write(subject, RIGHT).num_attempts == 2


def test_draws_end_after_ten_of_the_same_prompt(subject):
    script = Script(asked(subject, "retry"))
    answers = [script.write(subject, "no") for _ in range(10)]
    assert answers[:9] == 9 * [None]
    assert (answers[9].num_attempts, answers[9].verdict.fault) == (10, OutputFault.NO_CALL)
    assert len({tuple(sequence.prompt_ids) for sequence in script.sequences}) == 1
    assert len({sequence.seed for sequence in script.sequences}) == 10


def test_a_draw_that_would_repeat_itself_is_made_once_and_counted_ten_times(subject):
    script = Script(asked(subject, "retry", temperature=0.0))
    answer = script.write(subject, "no")
    (sequence,) = script.sequences
    assert (answer.num_attempts, answer.num_tokens) == (10, 10 * sequence.num_output)
    assert answer.num_prompt_tokens == 10 * len(sequence.prompt_ids)
    script = Script(asked(subject, "retry", temperature=0.0))
    assert script.write(subject, RIGHT).num_attempts == 1


def test_complaints_end_after_three_attempts_or_where_the_context_does(subject):
    script = Script(asked(subject, "complaint", temperature=0.0))
    answers = [script.write(subject, "no") for _ in range(3)]
    assert answers[:2] == 2 * [None]
    assert (answers[2].num_attempts, answers[2].verdict.fault) == (3, OutputFault.NO_CALL)
    question = asked(subject, "complaint")
    num_left = subject.loaded.context_length - len(question.prompt)
    assert Script(replace(question, max_tokens=num_left)).write(subject, "no").num_attempts == 1


def test_what_ends_at_the_limit_or_fails_is_cut_off(subject):
    for options in ({"reason": FinishReason.LENGTH}, {"fault": BudgetTooSmall(1, 2)}):
        answer = Script(asked(subject, "prompt")).write(subject, RIGHT, **options)
        assert answer.verdict.fault == OutputFault.TRUNCATED
        assert answer.verdict.is_tool


def test_the_same_seed_draws_the_same_however_many_are_asked_at_once(subject):
    many = [answer.text for answer in answered(subject, "callgate", 5)]
    alone = [*Asker(subject, num_at_once=1).answer([asked(subject, "callgate", number=3)])]
    assert many[3] == alone[0].text
    assert len(set(many)) > 1


def test_who_asks_finds_the_prompt_in_the_cache(subject):
    asker = Asker(subject, num_at_once=2)
    question = asked(subject, "retry", max_tokens=8)
    asker.warm([question.prompt])
    sequence = next(question.exchange())
    finish(asker._engine, sequence)
    assert len(question.prompt) - 2 * 16 < sequence.counters.num_cached < len(question.prompt)


@pytest.mark.parametrize("name", ["accept_4", "accept", "particles"])
def test_all_sequences_of_a_selected_answer_count(subject, name):
    plain, selected = answered(subject, "callgate", 2), answered(subject, name, 2)
    assert all(answer.verdict.is_valid and answer.num_attempts == 1 for answer in selected)
    assert sum(answer.num_tokens for answer in selected) > sum(answer.num_tokens for answer in plain)
    assert all(answer.num_computed > 0 < answer.num_forced < answer.num_tokens for answer in selected)


def test_answers_of_several_sequences_can_be_asked_for_many_at_once(subject):
    questions = [asked(subject, "particles", number=number, max_tokens=64) for number in range(40)]
    assert len(list(Asker(subject, num_at_once=40).answer(questions))) == 40


def test_inserted_tokens_are_every_key_in_order_and_values_know_their_type_alone(subject):
    answers = answered(subject, "insert", 6)
    whole = [arguments_of(answer) for answer in answers if answer.verdict.is_json]
    assert whole
    for arguments in whole:
        assert [(key, type(value)) for key, value in arguments.items()] == [
            ("n", int),
            ("s", str),
            ("on", bool),
        ]
    assert not any(answer.verdict.is_valid for answer in answers)  # whoever knows nothing writes no x or y
    assert all(
        answer.num_forced > 10 and answer.num_forced + answer.num_steps == answer.num_tokens
        for answer in answers
    )


def test_without_jump_forward_every_token_is_drawn_by_the_same_grammar(subject):
    for answer in answered(subject, "drawn", 3):
        assert answer.verdict.is_valid
        assert answer.num_forced == 0
        assert answer.num_steps >= answer.num_tokens


def test_bytes_that_are_no_text_are_a_fault(subject):
    vocabulary = subject.vocabulary
    half = next(i for i, token in enumerate(vocabulary.tokens) if token == b"\xc3")
    script = Script(asked(subject, "prompt"))
    script.sequences[0].token_ids.append(half)
    assert script.write(subject, RIGHT).verdict.fault == OutputFault.BROKEN_UTF8


def test_xgrammars_conversion_masks_by_its_own_reading(subject):
    answers = answered(subject, "xgrammar", 4)
    named = [answer.verdict.is_tool or '"name": "sub"' in answer.text for answer in answers]
    assert all(named)
    assert any(answer.verdict.is_valid for answer in answers)
    both = {
        "type": "object",
        "properties": {"n": {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 1}]}},
    }
    loose = replace(QUESTION, tools=(Tool("add", "", {**both, "required": ["n"]}),))
    assert {answer.verdict.fault for answer in answered(subject, "xgrammar", 6, question=loose)} & {
        OutputFault.WRONG_TYPE,
        OutputFault.BAD_VALUE,
    }
    assert all(answer.verdict.is_valid for answer in answered(subject, "callgate", 6, question=loose))


def test_tools_that_xgrammar_refuses_are_its_faults(subject):
    pattern = {"type": "object", "properties": {"s": {"type": "string", "pattern": r"a\b"}}}
    with pytest.raises(NoGrammar):
        xgrammar_conversion(subject, replace(QUESTION, tools=(Tool("add", "", pattern),)))


@pytest.mark.parametrize("name", ["callgate", "compact", "reasoning"])
def test_our_grammars_leave_no_fault(subject, name):
    answers = answered(subject, name, 6)
    assert all(answer.verdict.is_valid for answer in answers)
    for answer in answers:
        arguments = answer.text.partition('"arguments": ')[2]
        assert arguments.startswith({"compact": '{"n":', "reasoning": '{"reasoning": "'}.get(name, '{"n": '))
        assert ('"n": ' in arguments) == (name != "compact")


def test_in_any_order_calls_begin_with_different_keys(subject):
    answers = answered(subject, "any_order", 8)
    assert all(answer.verdict.is_valid for answer in answers)
    assert len({next(iter(arguments_of(answer))) for answer in answers}) > 1


@pytest.fixture
def thinking(loaded):
    """The same model, two of whose tokens begin and end a thought."""
    known = loaded.vocabulary
    first, second = [
        i for i, token in enumerate(known.tokens) if len(token) > 4 and i not in known.marker_ids
    ][:2]
    markers = {**known.markers, "<think>": first, "</think>": second}
    vocabulary = Vocabulary.from_tokens(known.tokens, markers=markers, stop_ids=known.stop_ids)
    return StudiedModel(replace(loaded, prepared=prepare(vocabulary), syntax="hermes+think"))


def test_who_can_think_has_a_row_for_it_and_calls_behind_the_thought(thinking, subject):
    assert [*strategies_for(thinking)][-1].name == "thinking"
    assert [*strategies_for(subject)][-1].name != "thinking"
    question = asked(thinking, "thinking", max_tokens=48)
    begun = replace(question, prompt=(*question.prompt, thinking.vocabulary.markers["<think>"]))
    answers = [*Asker(thinking, num_at_once=2).answer([begun, replace(begun, number=1)])]
    for answer in answers:
        assert answer.text.count("</think>") == 1
        assert answer.verdict.is_valid


def test_a_model_whose_calls_cannot_be_read_is_refused(loaded):
    with pytest.raises(RequestRefused, match="qwen3_coder"):
        StudiedModel(replace(loaded, syntax="qwen3_coder"))
