// Traces in files and on streams. trace/SPEC.md, TC20-TC31.

import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { createRuntime, jsonlTrace, MarlingError, readTrace, type TraceRecord } from "marling";
import { say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";

const HEADER = '{"format":"marling.trace","version":1}\n';

function file(name = "trace.jsonl"): string {
  const folder = mkdtempSync(join(tmpdir(), "marling-trace-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, name);
}

function note(number: number, text = ""): TraceRecord {
  const payload = { name: "n", context: {}, payload: { number, text } };
  return {
    kind: "custom",
    sessionId: "s",
    owner: "me",
    spanId: `a.${number}`,
    at: number,
    durationMs: 0,
    payload,
  };
}

async function read(
  path: string,
  onForeign?: (error: MarlingError) => void,
): Promise<readonly TraceRecord[]> {
  const records: TraceRecord[] = [];
  for await (const record of readTrace(path, onForeign === undefined ? {} : { onForeign }))
    records.push(record);
  return records;
}

describe("writing", () => {
  test("[TC20] a run is written behind a header, for its owner's eyes, and read as it was told", async () => {
    const path = file();
    const told: TraceRecord[] = [];
    const trace = jsonlTrace(path);
    const both = {
      record: (record: TraceRecord) => {
        told.push(record);
        trace.record(record);
      },
    };
    const runtime = createRuntime({ model: scriptedModel([say("Hi.")]), trace: both });
    await (await runtime.session("s")).turn("Hello").result;
    await runtime.close();
    await trace.close();
    expect(readFileSync(path, "utf8").startsWith(HEADER)).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(told.length).toBeGreaterThan(6);
    expect(await read(path)).toEqual(told);
    expect(trace.counts).toEqual({ written: told.length, dropped: 0, failed: 0 });
  });

  test("[TC20] a file is appended to, with one header", async () => {
    const path = file();
    for (const number of [1, 2]) {
      await using trace = jsonlTrace(path);
      trace.record(note(number));
    }
    expect((await read(path)).map(({ at }) => at)).toEqual([1, 2]);
    expect(readFileSync(path, "utf8").split("marling.trace")).toHaveLength(2);
  });

  test("[TC21] what does not fit while writing is slow is dropped and counted", async () => {
    const written: string[] = [];
    let release: () => void = () => undefined;
    const slow = new Writable({
      write: (chunk, _encoding, done) => {
        written.push(String(chunk));
        release = done;
      },
    });
    const trace = jsonlTrace(slow, { bufferBytes: 500 });
    for (let number = 0; number < 10; number += 1) trace.record(note(number, "x".repeat(50)));
    expect(trace.counts.dropped).toBe(8);
    await expect.poll(() => written.length).toBe(1);
    release();
    await trace.flush();
    expect(trace.counts).toEqual({ written: 2, dropped: 8, failed: 0 });
    trace.record(note(11));
    await expect.poll(() => written.length).toBe(2);
    release();
    await trace.close();
    expect(written.join("").split("\n").filter(Boolean)).toHaveLength(4);
    trace.record(note(12));
    expect(trace.counts.dropped).toBe(9);
  });

  test("[TC22] a place that cannot be written to is counted and named, and nobody else is told", async () => {
    const trace = jsonlTrace(join(file(), "no", "such", "folder"));
    trace.record(note(1));
    await trace.close();
    expect(trace.counts).toEqual({ written: 0, dropped: 1, failed: 1 });
    expect(trace.lastFailure).toMatchObject({ code: "ENOENT" });
  });

  test("[TC22] a value that is no JSON is counted, and the next record is written", async () => {
    const path = file();
    const trace = jsonlTrace(path);
    trace.record({ ...note(1), payload: { name: "n", context: {}, payload: 1n as never } } as TraceRecord);
    trace.record(note(2));
    await trace.close();
    expect(trace.counts).toEqual({ written: 1, dropped: 1, failed: 1 });
    expect((await read(path)).map(({ at }) => at)).toEqual([2]);
  });

  test("[TC22] a stream that breaks is counted", async () => {
    const broken = new Writable({ write: (_chunk, _encoding, done) => done(new Error("broken pipe")) });
    const trace = jsonlTrace(broken);
    trace.record(note(1));
    await trace.close();
    expect(trace.counts).toEqual({ written: 0, dropped: 1, failed: 1 });
    expect(String(trace.lastFailure)).toContain("broken pipe");
  });

  test("[TC23] a file that is not a trace stays as it is", async () => {
    const path = file();
    writeFileSync(path, "my diary\n");
    const trace = jsonlTrace(path);
    trace.record(note(1));
    await trace.close();
    expect(readFileSync(path, "utf8")).toBe("my diary\n");
    expect(trace.lastFailure).toMatchObject({ code: "invalid_trace" });
  });

  test("[TC24] a file that has grown is put aside, and so many of them are kept", async () => {
    const path = file();
    const trace = jsonlTrace(path, { rotateBytes: 300, keptFiles: 2 });
    for (let number = 1; number <= 5; number += 1) {
      trace.record(note(number, "x".repeat(120)));
      await trace.flush();
    }
    await trace.close();
    const numbers = async (name: string): Promise<readonly number[]> =>
      (await read(name)).map(({ at }) => at);
    expect(await numbers(path)).toEqual([5]);
    expect(await numbers(`${path}.1`)).toEqual([4]);
    expect(await numbers(`${path}.2`)).toEqual([3]);
    expect(() => statSync(`${path}.3`)).toThrow("ENOENT");
  });

  test.each(["rotateBytes", "bufferBytes", "keptFiles"])("an option %s that is no size is named", (name) => {
    expect(() => jsonlTrace("x", { [name]: -1 })).toThrow(`option ${name}`);
  });
});

describe("reading", () => {
  test("[TC30] a line that a crash has cut is left out, at the end and where the trace went on", async () => {
    const path = file();
    const first = jsonlTrace(path);
    first.record(note(1));
    await first.close();
    appendFileSync(path, '{"kind":"custom","sess');
    expect((await read(path)).map(({ at }) => at)).toEqual([1]);
    const second = jsonlTrace(path);
    second.record(note(2));
    await second.close();
    expect((await read(path)).map(({ at }) => at)).toEqual([1, 2]);
  });

  test.each([
    ["no JSON", "oops", "line 2: expected a record, found no JSON"],
    ["another kind", '{"kind":"spy"}', 'line 2.kind: expected a kind of record, found "spy"'],
    ["no session", '{"kind":"turn"}', "line 2.sessionId: expected a string, found nothing"],
    ["__proto__", '{"kind":"turn","__proto__":{"a":1}}', "line 2"],
  ])(
    "[TC31] a foreign line (%s) is an error with its number, or handed over",
    async (_what, line, message) => {
      const path = file();
      writeFileSync(path, `${HEADER}${line}\n${JSON.stringify(note(1))}\n`);
      const failed = await read(path).catch((thrown: unknown) => thrown);
      expect(failed).toMatchObject({ code: "invalid_trace", message: expect.stringContaining(message) });
      const foreign: string[] = [];
      expect(await read(path, ({ code }) => foreign.push(code))).toEqual([note(1)]);
      expect(foreign).toEqual(["invalid_trace"]);
    },
  );

  test.each([
    ["of another version", '{"format":"marling.trace","version":2}\n', "unsupported_version"],
    ["of another kind", '{"a":1}\n', "invalid_trace"],
    ["empty", "", "invalid_trace"],
  ])("[TC31] a file that is %s is refused", async (_what, text, code) => {
    const path = file();
    writeFileSync(path, text);
    await expect(read(path)).rejects.toMatchObject({ code });
  });

  test("[TC31] a file that is not there is named", async () => {
    await expect(read("/no/such/trace.jsonl")).rejects.toThrow("trace /no/such/trace.jsonl: expected a file");
    expect(MarlingError.is(await read("/no/such").catch((thrown: unknown) => thrown))).toBe(true);
  });
});
