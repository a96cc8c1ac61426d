"""Calls tools with an official client: each JSON line on stdin is a call, each JSON line on stdout its result."""

import asyncio
import json
import sys

LIBRARY, URL, KEY = sys.argv[1:4]
HEADERS = {"Authorization": f"Bearer {KEY}"}


def official(mode):
    from mcp import Client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    return Client(streamable_http_client(URL, http_client=create_mcp_http_client(headers=HEADERS)), mode=mode)


def fast():
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    return Client(StreamableHttpTransport(URL, headers=HEADERS))


async def called(client, name, args):
    told = []

    async def note(progress, total, message):
        told.append(message)

    if LIBRARY == "fastmcp":
        result = await client.call_tool(name, args, progress_handler=note, raise_on_error=False)
        is_error = result.is_error
    else:
        result = await client.call_tool(name, args, progress_callback=note)
        is_error = bool(result.is_error)
    texts = [block.text for block in result.content if block.type == "text"]
    return {
        "isError": is_error,
        "text": texts[0] if texts else "",
        "body": result.structured_content,
        "progress": told,
    }


async def listed(client):
    tools = await client.list_tools()
    return [tool.name for tool in getattr(tools, "tools", tools)]


async def main():
    client = fast() if LIBRARY == "fastmcp" else official("legacy" if LIBRARY == "mcp-legacy" else "auto")
    async with client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            answer = (
                {"names": await listed(client)}
                if asked["name"] == "list"
                else await called(client, asked["name"], asked["args"])
            )
            print(json.dumps(answer), flush=True)


asyncio.run(main())
