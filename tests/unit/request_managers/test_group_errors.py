"""The errors of a coordinator: its own words stay, and the next step comes with them."""

from __future__ import annotations

import copy
import pickle
import shlex

import pytest

from tandem_kafka.config import Config
from tandem_kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidCommitOffsetSizeError,
    InvalidSessionTimeoutError,
    KafkaError,
    OffsetMetadataTooLargeError,
    UnreleasedInstanceIdError,
)
from tandem_kafka.request_managers.group_errors import advised, group_error

#: What the user must do, in a few words.
CURES: dict[type[KafkaError], str] = {
    FencedInstanceIdError: "give each process an id of its own",
    GroupAuthorizationFailedError: "grant it: kafka-acls.sh",
    GroupMaxSizeReachedError: "stop a member",
    InconsistentGroupProtocolError: "set partition_assignment_strategy",
    InvalidCommitOffsetSizeError: "shorten it",
    InvalidSessionTimeoutError: "set one between",
    OffsetMetadataTooLargeError: "shorten it",
    UnreleasedInstanceIdError: "wait until the session of that member has ended",
}
CONFIG = Config.from_options({"group_id": "readers", "group_instance_id": "one"})


@pytest.mark.parametrize("kind", CURES)
def test_an_error_has_the_cure_and_the_words_of_the_coordinator(kind: type[KafkaError]) -> None:
    code: int = kind.errno
    error = group_error(code, CONFIG, "Its own words.")
    assert type(error) is kind
    assert CURES[kind] in str(error)
    assert str(error).endswith("; the coordinator says: Its own words.")
    assert "the coordinator says" not in str(group_error(code, CONFIG))
    for other in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert (type(other), str(other)) == (kind, str(error))


@pytest.mark.parametrize("kind", CURES)
def test_an_error_of_a_commit_has_the_cure_after_its_reason(kind: type[KafkaError]) -> None:
    error = advised(kind("orders-0"), CONFIG)
    assert type(error) is kind
    assert "orders-0: " in str(error)
    assert CURES[kind] in str(error)


def test_the_command_takes_any_name_of_a_group() -> None:
    name = "my readers; rm -r $HOME `ls` 'x'"
    error = group_error(
        InconsistentGroupProtocolError.errno, Config.from_options({"group_id": name})
    )
    command = f"tandem-kafka groups -g {shlex.quote(name)}"
    assert f"(`{command}` shows its protocol and assignor)" in str(error)
    assert shlex.split(command)[-1] == name


def test_an_error_without_a_cure_is_the_words_of_the_coordinator() -> None:
    assert str(group_error(-1, CONFIG, "Its own words.")).endswith(": Its own words.")
    assert str(group_error(9_999, CONFIG)).endswith(": group 'readers'")
    other = ValueError("mine")
    assert advised(other, CONFIG) is other
