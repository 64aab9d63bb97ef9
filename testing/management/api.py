"""A client of the HTTP API that hides nothing: status, headers and body of each answer. Knows no resource."""

import base64
import json
import urllib.error
import urllib.request


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, {k.lower(): v for k, v in headers.items()}, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Api:
    def __init__(self, base, login="guest:guest"):
        self.base, self.login = base.rstrip("/"), login

    def as_user(self, login):
        return Api(self.base, login)

    def __call__(self, method, path, body=None, headers=None, timeout=60):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, method=method, data=data, headers=headers or {})
        if self.login is not None:
            request.add_header("authorization", "Basic " + base64.b64encode(self.login.encode()).decode())
        if data is not None and not request.has_header("Content-type"):
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, dict(refused.headers), refused.read())

    def get(self, path, **more):
        answer = self("GET", path, **more)
        assert answer.status == 200, answer
        return answer.json


def quoted(text):
    return urllib.request.quote(text, safe="")
