import asyncio, json, sys, time
from mcp import Client, StdioServerParameters

NEROMAN, FOLDER = sys.argv[1:3]


def server(*words):
    import os
    return StdioServerParameters(command=NEROMAN, args=["mcp", *words], env=dict(os.environ))


async def call(client, tool, **fields):
    answer = await client.call_tool(tool, fields)
    text = answer.content[0].text
    assert len(text.encode()) <= 50_000, len(text)
    return answer.is_error, json.loads(text)


async def good(client, tool, **fields):
    is_error, document = await call(client, tool, **fields)
    assert not is_error, document
    return document


async def refused(client, tool, **fields):
    is_error, document = await call(client, tool, **fields)
    assert is_error, document
    return document["error"]["what"]


async def done(client, *words):
    tried = await good(client, "do", words=words)
    return tried, await good(client, "do", words=words, token=tried["token"])


async def states(client, select):
    rows = await good(client, "status", select=select, columns=["lr"])
    return {row["id"]: row["state"] for row in rows["experiments"]}


async def until(client, select, wanted):
    end = time.monotonic() + 90
    while True:
        now = await states(client, select)
        if set(now.values()) == {wanted}:
            return now
        assert time.monotonic() < end, now
        await asyncio.sleep(0.2)


async def story():
    async with Client(server()) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {"status", "show", "logs", "metrics", "results", "diff", "rule_why", "nodes", "do"}, tools
        pages = {page.uri for page in (await client.list_resources()).resources}
        assert {"neroman://help/selectors", "neroman://help/abort"} <= {str(page) for page in pages}
        page = (await client.read_resource("neroman://help/selectors")).contents[0].text
        assert "144.2" in page, page

        # Plan: nothing happens before the second call.
        tried = await good(client, "do", words=["add", FOLDER])
        assert (await good(client, "status"))["totals"]["experiments"] == 0, tried
        await good(client, "do", words=["add", FOLDER], token=tried["token"])
        tried = await good(client, "do", words=["start", "1-3"])
        assert set((await states(client, "1-3")).values()) == {"defined"}
        assert "another line" in await refused(client, "do", words=["start", "1-4"], token=tried["token"])
        await good(client, "do", words=["start", "1-3"], token=tried["token"])
        assert "was used" in await refused(client, "do", words=["start", "1-3"], token=tried["token"])

        # Wait and compare.
        await until(client, "1-3", "finished")
        series = (await good(client, "metrics", select="1-3", names=["loss"], points=8))["series"]
        assert [one["run"] for one in series] == ["1.1", "2.1", "3.1"], series
        assert all(len(one["values"]) <= 8 for one in series), series
        best = (await good(client, "results", select="1-3", best="loss"))["runs"][0]
        assert best["id"] == 1, best
        diff = await good(client, "diff", one="1", other="2")
        assert [one["name"] for one in diff["parameters"]] == ["lr"], diff
        log = await good(client, "logs", what="1", last=1)
        assert log["text"] == "step 49 loss 4.9\n" and log["is_end"], log
        log = await good(client, "logs", what="1", **{"from": log["next"]})
        assert log["text"] == "", log

        # Watch and abort.
        await done(client, "start", "4")
        await until(client, "4", "running")
        tried, answer = await done(client, "abort", "4")
        assert tried["documents"][0]["dry_run"], tried
        await until(client, "4", "aborted")
        history = (await good(client, "show", what="4"))["history"]
        for line in ["abort asked by mcp", "4.1: asked for by mcp"]:
            assert any(line in one for one in history), (line, history)
        tried, answer = await done(client, "note", "4", "too long")
        history = (await good(client, "show", what="4"))["history"]
        assert any("too long" in line and line.endswith("by mcp") for line in history), history
        assert (await good(client, "rule_why", select="4"))["rules"] == []
        assert (await good(client, "nodes"))["nodes"]

        # What is not an agent's.
        assert "not done from here" in await refused(client, "do", words=["daemon", "stop"])
        assert "one line" in await refused(client, "do", words=["abort", "4", "--exec", "4", "--", "ls"])
        assert "no field" in await refused(client, "status", selector="4")
        assert "cannot take" in await refused(client, "show", what="--help")
        assert "missing" in await refused(client, "show")
    async with Client(server("--read-only")) as client:
        assert "do" not in {tool.name for tool in (await client.list_tools()).tools}
        assert (await good(client, "status", count=1))["totals"]["experiments"] == 4


asyncio.run(story())
print("played")
