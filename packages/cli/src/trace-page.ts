// A trace as one page that needs nothing else: no network, no other files, nothing but the browser that opens it.
//   TP1  what a trace says reaches the page as escaped text, or as JSON that cannot end its block.
//   TP2  the page may run its own code and no other: its policy names the one script by its digest, and allows no request.

import { createHash } from "node:crypto";
import type { TraceRecord } from "marling";
import { grouped, type RowKind } from "./trace-page/describe-record.ts";
import { escapeHtml, jsonBlock } from "./trace-page/escape.ts";
import { type PageSection, pageSections, sessionOf } from "./trace-page/page-rows.ts";
import { PAGE_SCRIPT } from "./trace-page/page-script.ts";
import { PAGE_STYLE } from "./trace-page/page-style.ts";
import { type ModelPrice, sumUsage, type TurnUsage, turnUsage } from "./trace-page/turn-usage.ts";

export type { ModelPrice } from "./trace-page/turn-usage.ts";

export interface TracePageOptions {
  /** The heading; by default the sessions of the trace. */
  readonly title?: string;
  /** By model; without prices the page shows no cost. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  /** What stands before an amount; `$` by default. */
  readonly currency?: string;
}

/** The page of a trace, as HTML. */
export function renderTracePage(records: readonly TraceRecord[], options: TracePageOptions = {}): string {
  const sections = pageSections(records);
  const turns = turnUsage(records, options.prices ?? {});
  const title = options.title ?? titleOf(records);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${escapeHtml(title)} · marling trace</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<main>
<header><h1>${escapeHtml(title)}</h1><p class="sub">${escapeHtml(subtitle(records))}</p></header>
${tiles(records, turns, options)}
${timeline(sections)}
${usageTable(turns, options)}
</main>
<script type="application/json" id="data">${jsonBlock(pageData(sections, turns))}</script>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;
}

function policy(): string {
  const digest = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  return `default-src 'none'; base-uri 'none'; form-action 'none'; script-src ${digest(PAGE_SCRIPT)}; style-src ${digest(PAGE_STYLE)}`;
}

function titleOf(records: readonly TraceRecord[]): string {
  const started = records.filter(({ kind, parentId }) => kind === "turn_started" && parentId === undefined);
  const [first, ...others] = new Set((started.length === 0 ? records : started).map(sessionOf));
  if (first === undefined) return "Empty trace";
  return others.length === 0 ? `Session ${first}` : `${others.length + 1} sessions`;
}

function subtitle(records: readonly TraceRecord[]): string {
  const workers = [...new Set(records.map(({ owner }) => owner))];
  const sessions = new Set(records.map(sessionOf)).size;
  const begun = records.reduce((earliest, { at }) => Math.min(earliest, at), Number.POSITIVE_INFINITY);
  const when = Number.isFinite(begun) ? new Date(begun).toISOString().replace("T", " ").slice(0, 19) : "";
  const parts = [
    when === "" ? "" : `${when} UTC`,
    counted(sessions, "session"),
    workers.length > 3 ? counted(workers.length, "worker") : workers.join(", "),
    counted(records.length, "record"),
  ];
  return parts.filter(Boolean).join(" · ");
}

function tiles(
  records: readonly TraceRecord[],
  turns: readonly TurnUsage[],
  { prices, currency = "$" }: TracePageOptions,
): string {
  const count = (kind: TraceRecord["kind"]): number =>
    records.filter((record) => record.kind === kind).length;
  const sum = (of: (turn: TurnUsage) => number): number => turns.reduce((total, turn) => total + of(turn), 0);
  const usage = sumUsage(turns);
  const requests = count("model_attempt");
  const calls = records.filter((record) => record.kind === "model_call" && !record.payload.replayed).length;
  const failed = turns.filter(({ isFailed }) => isFailed).length;
  const failedTools = records.filter(
    (record) =>
      record.kind === "tool_attempt" &&
      record.payload.outcome?.kind === "failure" &&
      !record.payload.replayed,
  ).length;
  const retries = Math.max(0, requests - calls);
  const cached = usage.cacheRead === 0 ? "" : `${grouped(usage.cacheRead)} cached`;
  return `<dl class="tiles">${[
    tile("Turns", grouped(turns.length), failed === 0 ? "" : `${failed} not finished`, failed > 0),
    tile("Rounds", grouped(sum(({ rounds }) => rounds)), ""),
    tile("Model calls", grouped(calls), retries === 0 ? "" : counted(retries, "retry", "retries")),
    tile(
      "Tool calls",
      grouped(sum(({ tools }) => tools)),
      failedTools === 0 ? "" : `${failedTools} failed`,
      failedTools > 0,
    ),
    tile("Input tokens", grouped(usage.input + usage.cacheRead + usage.cacheWrite), cached),
    tile(
      "Output tokens",
      grouped(usage.output),
      usage.reasoning === 0 ? "" : `${grouped(usage.reasoning)} reasoning`,
    ),
    tile("Time in turns", duration(sum(({ durationMs }) => durationMs)), ""),
    ...(prices === undefined ? [] : [tile("Cost", money(usage.cost, currency), "")]),
  ].join("")}</dl>`;
}

function tile(name: string, value: string, note: string, isBad = false): string {
  return `<div class="tile"><dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd><small${isBad ? ' class="bad"' : ""}>${escapeHtml(note)}</small></div>`;
}

const TOGGLES: readonly (readonly [RowKind, string])[] = [
  ["hook", "Hooks"],
  ["effect", "Replays"],
  ["commit", "Commits"],
  ["note", "Notes"],
];

const LEGEND: readonly (readonly [string, string])[] = [
  ["k-model", "model"],
  ["k-first", "until first token"],
  ["k-tool", "tool"],
  ["k-attempt", "attempt"],
  ["k-wait", "wait"],
  ["k-hook", "hook"],
  ["k-parked", "parked"],
  ["k-failed", "failed"],
];

function timeline(sections: readonly PageSection[]): string {
  const rows = sections.flatMap((section) => section.rows);
  const failed = rows.filter(({ status }) => status === "failed").length;
  const toggle = (show: string, label: string, count: number): string =>
    count === 0
      ? ""
      : `<button type="button" data-show="${show}" aria-pressed="false">${label}<span class="n">${grouped(count)}</span></button>`;
  const toggles = TOGGLES.map(([kind, label]) =>
    toggle(kind, label, rows.filter((row) => row.kind === kind).length),
  );
  return `<section class="card" aria-label="Timeline">
<div class="bar"><h2>Timeline</h2>
<select id="session" aria-label="Session"></select><select id="turn" aria-label="Turn"></select>
<input type="search" id="find" placeholder="Find a row" aria-label="Find a row"><span class="grow"></span>
${toggles.join("")}${toggle("failed", "Failures", failed)}</div>
<div class="legend">${LEGEND.map(([style, name]) => `<span><i class="${style}"></i>${name}</span>`).join("")}</div>
<div class="work"><div class="rows" id="rows" role="tree" tabindex="0" aria-label="Spans"><div class="space" id="space"></div><p class="empty" id="none" hidden>Nothing here matches.</p></div>
<aside id="aside" aria-label="Details" hidden><header><h3 id="what"></h3><button type="button" id="close">Close</button></header><dl id="facts"></dl><pre id="payload" tabindex="0"></pre></aside></div>
<div class="hint"><kbd>↑</kbd> <kbd>↓</kbd> move · <kbd>Enter</kbd> details · <kbd>←</kbd> <kbd>→</kbd> fold · <kbd>Esc</kbd> close</div>
</section>`;
}

function usageTable(turns: readonly TurnUsage[], { prices, currency = "$" }: TracePageOptions): string {
  const columns = [
    "Turn",
    "Session",
    "Outcome",
    "Time",
    "Rounds",
    "Requests",
    "Tools",
    "Input",
    "Output",
    "Cache read",
    "Cache write",
    "Reasoning",
  ];
  const head = [...columns, ...(prices === undefined ? [] : ["Cost"])];
  const tokens = (sum: ReturnType<typeof sumUsage>): readonly string[] => [
    ...[sum.input, sum.output, sum.cacheRead, sum.cacheWrite, sum.reasoning].map(grouped),
    ...(prices === undefined ? [] : [money(sum.cost, currency)]),
  ];
  const row = (turn: TurnUsage, index: number): string =>
    `<tr><td class="id"><button type="button" data-turn="${index}" title="${escapeHtml(turn.turn)}">${escapeHtml(turn.turn)}</button></td><td class="id" title="${escapeHtml(turn.session)}">${escapeHtml(turn.session)}</td><td${turn.isFailed ? ' class="bad"' : ""}>${escapeHtml(turn.outcome)}</td>${[duration(turn.durationMs), grouped(turn.rounds), grouped(turn.requests), grouped(turn.tools), ...tokens(turn)].map(cell).join("")}</tr>`;
  const total = `<tr><td>All turns</td><td></td><td></td>${["", "", "", "", ...tokens(sumUsage(turns))].map(cell).join("")}</tr>`;
  return `<section class="card" aria-label="Usage"><div class="bar"><h2>Usage by turn</h2></div><div class="scroll" tabindex="0"><table><thead><tr>${head.map((name) => `<th scope="col">${name}</th>`).join("")}</tr></thead><tbody>${turns.map(row).join("")}</tbody><tfoot>${total}</tfoot></table></div></section>`;
}

function cell(text: string): string {
  return `<td>${escapeHtml(text)}</td>`;
}

/** What the page's code works with. */
function pageData(sections: readonly PageSection[], turns: readonly TurnUsage[]): unknown {
  return {
    turns: turns.map(({ session, turn }) => ({ session, turn })),
    sections: sections.map(({ rows, turn, ...section }) => {
      const shown = rows.map((row) => ({
        ...row,
        session: sessionOf(row.record),
        turn: row.record.turnId ?? "",
      }));
      return { ...section, turn: turn ?? null, first: shown[0], rows: shown };
    }),
  };
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 60_000
    ? `${(ms / 1_000).toFixed(2)} s`
    : `${Math.floor(ms / 60_000)} m ${Math.round((ms % 60_000) / 1_000)} s`;
}

function money(amount: number | undefined, currency: string): string {
  if (amount === undefined) return "no price";
  return `${currency}${amount.toFixed(amount !== 0 && amount < 1 ? 4 : 2)}`;
}
