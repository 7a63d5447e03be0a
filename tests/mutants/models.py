"""Mutants of the models that a class asks: what counts as an answer, and who fails."""

import asyncio
import functools
import json
import re

from . import by_runtime, replaces

by = functools.partial(
    by_runtime, honest="tests/runtime/test_models.py::test_a_judge_grades"
)


def plain_choices(question, text):
    """The choices that a text names anywhere, in its order."""
    choices = [choice for choice in question.choices.values() if choice in text]
    return sorted(choices, key=text.find)


@replaces("Question.read")
@by("test_models.py::test_a_quotation_does_not_count")
def a_choice_counts_anywhere(original, question, said, **named):
    found = plain_choices(question, said.upper())
    return found[-1] if found else original(question, said, **named)


@replaces("Question.read")
@by("test_models.py::test_a_quotation_does_not_count")
def the_last_line_alone_counts(original, question, said, **named):
    return original(question, said.rstrip().rpartition("\n")[2], **named)


@replaces("question._without_label")
@by("test_models.py::test_a_quotation_does_not_count")
def any_words_before_a_colon_are_a_label(original, line):
    return line.rpartition(":")[2]


@replaces("Question.read")
@by("test_models.py::test_an_answer_that_was_cut_off_does_not_count")
def an_answer_that_was_cut_off_counts(original, question, said, **named):
    return original(question, said)


@replaces("question._messages")
@by("test_models.py::test_the_policy_s_text_is_data")
def the_policy_s_text_is_a_part_of_the_prompt(original, prompt, rules, data):
    return original(f"{prompt}\n{data}", rules, data)


@replaces("question._messages")
@by("test_models.py::test_the_policy_s_text_is_data")
def the_mark_around_data_is_known(original, *arguments):
    text = json.dumps(original(*arguments))
    return json.loads(re.sub("=== [0-9a-f]{16} ===", "=== data ===", text))


@replaces("LimitedEndpoint.say")
@by("test_models.py::test_a_text_that_is_too_long_is_not_asked_about")
async def a_text_without_an_answer_masks_the_sample(original, *arguments):
    errors = errors_of_runtime()
    try:
        return await original(*arguments)
    except errors.NoAnswerError as error:
        raise errors.ModelError(str(error)) from error


@replaces("LimitedEndpoint.say")
@by("test_models.py::test_a_refused_question_masks_the_sample")
async def an_endpoint_that_fails_masks_nothing(original, *arguments):
    errors = errors_of_runtime()
    try:
        return await original(*arguments)
    except errors.ModelError as error:
        raise errors.NoAnswerError(str(error)) from error


@replaces("LimitedEndpoint.say")
@by("test_models.py::test_a_text_that_is_too_long_is_not_asked_about")
def a_text_may_have_any_length(original, endpoint, *arguments):
    more = {"characters": 1 << 40}
    endpoint.settings = endpoint.settings.model_copy(update=more)
    return original(endpoint, *arguments)


@replaces("LimitedEndpoint.say")
@by("test_models.py::test_two_hundred_at_once_hold_the_bound")
def questions_are_not_bounded(original, endpoint, *arguments):
    endpoint._room = asyncio.Semaphore(1000)
    return original(endpoint, *arguments)


@replaces("LimitedEndpoint.say")
@by("test_models.py::test_a_slow_judge_masks_the_sample")
async def a_slow_judge_masks_nothing(original, *arguments):
    errors = errors_of_runtime()
    try:
        return await original(*arguments)
    except errors.ModelError as error:
        if "no answer in" in str(error):
            raise errors.NoAnswerError(str(error)) from error
        raise


@replaces("EpisodeModels.read")
@by("test_models.py::test_nonsense_is_asked_once_more_and_then_earns_nothing")
async def nonsense_masks_the_sample(original, models, *arguments):
    try:
        return await original(models, *arguments)
    except errors_of_runtime().NoAnswerError as error:
        models.failure = str(error)
        raise


@replaces("EpisodeModels.say")
@by("test_models.py::test_a_policy_that_writes_a_lot_fills_no_memory")
def all_texts_are_kept(original, models, *arguments):
    models._characters = 0
    return original(models, *arguments)


@replaces("Models._endpoint")
@by("test_models.py::test_a_stand_in_is_never_used_where_nobody_asked_for_it")
def a_stand_in_grades(original, models, name):
    endpoint = original(models, name)
    if type(endpoint).__name__ == "NotSet":
        return stand_in_of(models, name)
    return endpoint


def errors_of_runtime():
    from env_runtime import errors

    return errors


def stand_in_of(models, name):
    from env_runtime.models.endpoints import StandIn

    return StandIn(name, getattr(models.domain_class, "stand_in", None))


@replaces("LimitedEndpoint._ask")
@by("test_models.py::test_a_failure_that_a_text_causes_masks_nothing")
def the_endpoint_is_always_to_blame(original, endpoint, *arguments):
    return endpoint._attempt(*arguments)


@replaces("question.bounded")
@by("test_models.py::test_an_answer_has_a_limit")
def an_answer_has_no_limit(original, stream, *arguments):
    return aiter(stream)
