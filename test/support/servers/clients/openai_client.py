"""Runs the official Python client: each JSON line on stdin is a call, each JSON line on stdout its result."""

import base64
import json
import sys

import openai

base_url = sys.argv[1]


def list_models(client):
    return [model.id for model in client.models.list()]


def retrieve(client, model):
    found = client.models.retrieve(model)
    return {"id": found.id, "object": found.object, "created": found.created}


def seen(completion):
    """Returns the fields of a completion that callers read, as the client names them."""
    choice = completion.choices[0]
    calls = [[call.id, call.function.name, call.function.arguments] for call in choice.message.tool_calls or []]
    return {
        "text": choice.message.content,
        "finish": choice.finish_reason,
        "tool_calls": calls,
        "usage": completion.usage and counts(completion.usage),
    }


def counts(usage):
    return [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens]


def chat(client, **asked):
    return seen(client.chat.completions.create(**asked))


def stream(client, **asked):
    chunks = list(client.chat.completions.create(stream=True, **asked))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    return {
        "chunks": len(chunks),
        "text": "".join(choice.delta.content or "" for choice in choices),
        "finish": [choice.finish_reason for choice in choices if choice.finish_reason],
        # The usage from each chunk that includes it, with the chunk's number of choices.
        "usage": [[len(chunk.choices), counts(chunk.usage)] for chunk in chunks if chunk.usage],
    }


def put_together(client, **asked):
    """Returns the result of the client's stream helper."""
    with client.chat.completions.stream(**asked) as events:
        return seen(events.get_final_completion())


def until_refused(client):
    """Sends requests above the account's rate limit until the client raises an exception."""
    for _ in range(1_000):
        client.models.list()


def respond(client, **asked):
    response = client.responses.create(**asked)
    return {"text": response.output_text, "types": [item.type for item in response.output], "status": response.status}


def respond_in_a_stream(client, **asked):
    with client.responses.stream(**asked) as stream:
        types = [event.type for event in stream]
        response = stream.get_final_response()
    return {"types": types, "text": response.output_text, "output": [item.type for item in response.output]}


def complete(client, **asked):
    return client.completions.create(**asked).choices[0].text


def embed(client, **asked):
    return [one.embedding for one in client.embeddings.create(**asked).data]


def as_values(answer):
    return answer if isinstance(answer, str) else answer.model_dump(exclude_unset=True)


def transcribe(client, path, **asked):
    with open(path, "rb") as file:
        return as_values(client.audio.transcriptions.create(file=file, **asked))


def translate(client, path, **asked):
    with open(path, "rb") as file:
        return {"text": client.audio.translations.create(file=file, response_format="json", **asked).text}


def speak(client, **asked):
    spoken = client.audio.speech.create(**asked)
    return {"bytes": base64.b64encode(spoken.content).decode(), "type": spoken.response.headers["content-type"]}


def pictures(answer):
    return [picture.model_dump(exclude_unset=True) for picture in answer.data]


def paint(client, **asked):
    return pictures(client.images.generate(**asked))


def edit(client, path, **asked):
    with open(path, "rb") as file:
        return pictures(client.images.edit(image=file, **asked))


def vary(client, path, **asked):
    with open(path, "rb") as file:
        return pictures(client.images.create_variation(image=file, **asked))


FUNCTIONS = [
    list_models,
    retrieve,
    chat,
    stream,
    put_together,
    until_refused,
    respond,
    respond_in_a_stream,
    complete,
    embed,
]
FUNCTIONS += [transcribe, translate, speak, paint, edit, vary]
CALLS = {each.__name__: each for each in FUNCTIONS}


def complaint(error):
    """Describes an exception of the client: its public name and the fields that callers read."""
    name = type(error).__name__
    assert type(error) is getattr(openai, name)
    response = getattr(error, "response", None)
    return {
        "name": name,
        "status": getattr(error, "status_code", None),
        "code": error.code,
        "retry_after": response.headers.get("retry-after") if response is not None else None,
    }


for line in sys.stdin:
    asked = json.loads(line)
    with openai.OpenAI(base_url=base_url, api_key=asked["key"], max_retries=0) as client:
        try:
            answer = {"answer": CALLS[asked["call"]](client, **asked["with"])}
        except openai.APIError as error:
            answer = {"raised": complaint(error)}
    print(json.dumps(answer), flush=True)
