"""DescribeConfigs and IncrementalAlterConfigs: the settings of topics and groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka import errors
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from tandem_kafka_testing.cluster.apis.api import Api, error_code, error_text
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.group_configs import FIELDS, fields_of
from tandem_kafka_testing.cluster.topic_configs import DEFAULTS, check_config
from tandem_kafka_testing.coordinator.settings import GroupSettings

_RESULT = DescribeConfigsResponse.DescribeConfigsResult
_CONFIG = _RESULT.DescribeConfigsResourceResult
_ALTERED = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
_TOPIC, _GROUP = 2, 32
_SET_BY_TOPIC, _DEFAULT, _SET_BY_GROUP = 1, 5, 8
_SET, _DELETE = 0, 1


def _describe(call: Call) -> Any:
    results = [_described(call, wanted) for wanted in call.request.resources]
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def _described(call: Call, wanted: Any) -> Any:
    topic, error, configs = None, None, []
    if wanted.resource_type == _TOPIC:
        topic = call.cluster.topics.get(wanted.resource_name)
        error = None if topic is not None else errors.UnknownTopicOrPartitionError
    if wanted.resource_type == _GROUP:
        configs = _of_group(call, wanted)
    if topic is not None:
        names = DEFAULTS if wanted.configuration_keys is None else wanted.configuration_keys
        configs = [
            _config(
                name,
                topic.configs.get(name, DEFAULTS[name]),
                _SET_BY_TOPIC if name in topic.configs else _DEFAULT,
            )
            for name in names
            if name in DEFAULTS
        ]
    return _RESULT(
        error_code=error_code(error),
        error_message=None,
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
        configs=configs,  # brokers have none here
    )


def _of_group(call: Call, wanted: Any) -> list[Any]:
    """Return the settings of a group, also of one that does not exist."""
    coordination = call.cluster.coordination
    known = coordination.coordinators.get(wanted.resource_name)
    defaults, settings = GroupSettings(), known.settings if known else coordination.settings
    names = FIELDS if wanted.configuration_keys is None else wanted.configuration_keys
    found = []
    for name in names:
        if name in FIELDS:
            value, default = getattr(settings, FIELDS[name]), getattr(defaults, FIELDS[name])
            source = _SET_BY_GROUP if value != default else _DEFAULT
            found.append(_config(name, str(value).lower(), source))
    return found


def _config(name: str, value: str, source: int) -> Any:
    return _CONFIG(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_default=source == _DEFAULT,
        is_sensitive=False,
        synonyms=[],
        config_type=0,
        documentation=None,
    )


def _alter(call: Call) -> Any:
    responses = []
    for wanted in call.request.resources:
        code, message = 0, None
        try:
            _altered(call, wanted)
        except errors.BrokerResponseError as error:
            code, message = error_code(error), error_text(error)
        responses.append(
            _ALTERED(
                error_code=code,
                error_message=message,
                resource_type=wanted.resource_type,
                resource_name=wanted.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)


def _altered(call: Call, wanted: Any) -> None:
    if wanted.resource_type == _GROUP:
        _alter_group(call, wanted)
        return
    if wanted.resource_type != _TOPIC:
        raise errors.InvalidRequestError("only settings of topics and groups can be changed here")
    topic = call.cluster.topics.get(wanted.resource_name)
    if topic is None:
        raise errors.UnknownTopicOrPartitionError
    configs = dict(topic.configs)
    for change in wanted.configs:
        if change.config_operation == _DELETE:
            configs.pop(change.name, None)
        elif change.config_operation == _SET:
            check_config(change.name, change.value)
            configs[change.name] = change.value
        else:
            raise errors.InvalidConfigurationError(f"{change.name} is not a list")
    if not call.request.validate_only:
        topic.configs = configs


def _alter_group(call: Call, wanted: Any) -> None:
    unknown = [c.name for c in wanted.configs if c.config_operation not in (_SET, _DELETE)]
    if unknown:
        raise errors.InvalidConfigurationError(f"{unknown[0]} is not a list")
    changes = {c.name: c.value if c.config_operation == _SET else None for c in wanted.configs}
    coordinator = call.cluster.coordination.of(wanted.resource_name)
    try:
        changed = fields_of(changes)
        replace(coordinator.settings, **changed)  # checks the values
    except ValueError as error:
        raise errors.InvalidConfigurationError(str(error)) from None
    if not call.request.validate_only:
        coordinator.configure(**changed)


APIS = (
    Api(DescribeConfigsRequest, (1, 4), _describe),
    Api(IncrementalAlterConfigsRequest, (0, 1), _alter),
)
