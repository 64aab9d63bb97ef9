"""A pytest plugin for amqpstorm's functional suite: another port than 5672, and cleaning up by AMQP instead of the HTTP API.

It changes how the suite connects and cleans, never what it tests.
"""

import os

import amqpstorm
from amqpstorm.tests.functional import utility

PORT = int(os.environ["AMQP_PORT"])


def connect(test, **options):
    """Replaces the suite's way to connect."""
    options = {"timeout": 5, "poller": test.poller, "port": PORT} | options
    return amqpstorm.Connection(utility.HOST, utility.USERNAME, utility.PASSWORD, **options)


def clean(names, queue=False, exchange=False):
    """Replaces the suite's deletion of what a test declared."""
    kinds = [kind for kind, wanted in (("queue", queue), ("exchange", exchange)) if wanted]
    with amqpstorm.Connection(utility.HOST, utility.USERNAME, utility.PASSWORD, port=PORT) as connection:
        for kind in kinds:
            for name in names:
                try:
                    getattr(connection.channel(), kind).delete(name)
                except amqpstorm.AMQPError:
                    pass


utility.TestFunctionalFramework._make_connection = connect
utility.clean = clean
