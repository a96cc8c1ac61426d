"""What the official Python client makes of a gateway: one JSON line with what it saw."""

import json
import sys

import openai

base_url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
messages = [{"role": "user", "content": "hi"}]


def raised(**changes):
    asked = {"model": model, "messages": messages, **changes}
    using = client.with_options(api_key=asked.pop("key", key))
    try:
        using.chat.completions.create(**asked)
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code]
    return None


completion = client.chat.completions.create(
    model=model, messages=messages, response_format={"type": "json_object"}, extra_body={"fake": {"tokens": 4}}
)
stream = client.chat.completions.create(
    model=model, messages=messages, stream=True, extra_body={"fake": {"tokens": 5}}
)
print(
    json.dumps(
        {
            "models": [each.id for each in client.models.list()],
            "tokens": completion.usage.completion_tokens,
            "finish": completion.choices[0].finish_reason,
            "chunks": sum(1 for _ in stream),
            "errors": [
                raised(key="sk-wrong"),
                raised(model="nothing"),
                raised(messages=[]),
                raised(extra_body={"fake": {"status": 400}}),
                raised(extra_body={"fake": {"status": 503}}),
            ],
        }
    )
)
