// HTML as text, and bytes as text.

import { expect, test } from "vitest";
import { htmlToText } from "../../../src/stock/tools/web-fetch/html-text.ts";
import {
  contentTypeOf,
  decodeText,
  isText,
  looksLikeText,
} from "../../../src/stock/tools/web-fetch/page-text.ts";

const base = new URL("https://a.example/docs/page");
const text = (html: string, maxChars = 10_000): string => htmlToText(html, { base, maxChars }).text;

test.each([
  ["words", "<p>One\n  two</p><p>three</p>", "One two\n\nthree"],
  ["inline elements", "a<b>b</b> <i>c</i>d <span> e </span>f", "ab cd e f"],
  ["headings", "<h1>Top</h1><div>x</div><h3>Deep</h3>y", "# Top\n\nx\n\n### Deep\n\ny"],
  ["lists", "<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e", "- a\n- b\n  - c\n- d\n\ne"],
  ["numbered lists", "<ol><li>a</li><li><p>b</p></li></ol>", "1. a\n\n1. b"],
  ["links", 'see <a href="/x?a=1&amp;b=2">here</a>.', "see [here](https://a.example/x?a=1&b=2)."],
  ["links to nowhere", '<a href="#top">up</a> <a>x</a> <a href="javascript:alert(1)">y</a>', "up x y"],
  ["links without words", 'a <a href="/x"><svg><text>no</text></svg></a> b', "a b"],
  ["links in links", '<a href="/x">a<a href="/y">b', "[a](https://a.example/x)[b](https://a.example/y)"],
  ["images", '<img alt="A &quot;cat&quot;" src=x><img src=y>', '[image: A "cat"]'],
  ["tables", "<table><tr><th>a<th>b<tr><td>1</td><td>2</td></table>", "a | b\n1 | 2"],
  ["code", "x<pre>\n  if (a &lt; b)\n    c</pre>y", "x\n\n```\n\n  if (a < b)\n    c\n```\n\ny"],
  ["line breaks", "a<br>b<br/>c<hr>d", "a\nb\nc\n\n---\n\nd"],
  ["scripts and styles", "a<script>if (1<2) '</p>'</script><STYLE>p{}</style>b<noscript>c</noscript>", "ab"],
  ["a script that never ends", "a<script>b<p>c", "a"],
  ["comments", "a<!-- <p>no</p> --->b<!doctype x><?php no ?>c", "abc"],
  ["a comment that never ends", "a<!-- b", "a"],
  ["references", "&lt;&#65;&#x42;&euro;&nbsp;&unknown;&#0;&amp;lt;", "<AB€ &unknown;\ufffd&lt;"],
  ["what is no tag", "1 < 2 and 3 > 2 <> <3", "1 < 2 and 3 > 2 <> <3"],
  ["quotes in attributes", `<a title='>"' href="/x>y">t</a>`, "[t](https://a.example/x%3Ey)"],
  ["an empty heading", "<h2></h2><p>x</p>", "x"],
  ["a tag that never ends", "a<a href='x", "a"],
])("[WF7] %s", (_what, html, expected) => {
  expect(text(html)).toBe(expected);
});

test("[WF7] the title is apart from the text", () => {
  const page = "<html><head><title>\n A &amp; <b>B\n</title></head><body>x</body>";
  expect(htmlToText(page, { base, maxChars: 100 })).toEqual({ title: "A & <b>B", text: "x", isCut: false });
});

test("[WF7] the text ends at the limit, whatever is being written", () => {
  expect(htmlToText("<p>abcdef</p><p>ghi</p>", { base, maxChars: 8 })).toMatchObject({
    text: "abcdef",
    isCut: true,
  });
  expect(htmlToText("<p>abcdef</p>", { base, maxChars: 6 })).toMatchObject({ text: "abcdef", isCut: false });
  const links = `<a href=x>l</a>`.repeat(50_000);
  const long = new URL(`https://a.example/${"p".repeat(2_000)}/`);
  expect(htmlToText(links, { base: long, maxChars: 5_000 }).text).toHaveLength(5_000);
});

test.each([
  ["open tags", "<a ".repeat(300_000)],
  ["open quotes", `<a b="`.repeat(200_000)],
  ["open comments", "<!--".repeat(250_000)],
  ["less than", "<".repeat(1_000_000)],
  ["open titles", "<title>".repeat(150_000)],
  ["spaces", `<a ${" ".repeat(1_000_000)}b`],
  ["ampersands", "&".repeat(1_000_000)],
  ["deep lists", "<ul><li>".repeat(100_000)],
])("[WF7] a megabyte of %s is read", (_what, html) => {
  expect(htmlToText(html, { base, maxChars: 10_000 }).text.length).toBeLessThanOrEqual(10_000);
});

const bytes = (...values: number[]): Buffer => Buffer.from(values);

test.each<[string, Buffer, string, string]>([
  ["the header", bytes(0xe9), "text/plain; charset=ISO-8859-1", "é"],
  ["a header in quotes", bytes(0xe9), 'text/plain; x=y; Charset="latin1"', "é"],
  ["UTF-8 without a word about it", Buffer.from("é"), "text/plain", "é"],
  ["a mark, against the header", bytes(0xff, 0xfe, 0x61, 0), "text/plain; charset=utf-8", "a"],
  [
    "the page itself",
    Buffer.from('<meta charset="windows-1251">\xe9', "latin1"),
    "text/html",
    '<meta charset="windows-1251">й',
  ],
  [
    "not the page itself when it is no HTML",
    Buffer.from("<meta charset=latin1>é"),
    "text/plain",
    "<meta charset=latin1>é",
  ],
  ["a name that nobody knows", Buffer.from("é"), "text/plain; charset=klingon", "é"],
  ["bytes that do not fit", bytes(0x61, 0xff), "text/plain; charset=utf-8", "a\ufffd"],
])("[WF11] %s decides what the text is written in", (_what, body, header, expected) => {
  expect(decodeText(body, contentTypeOf(header))).toBe(expected);
});

test.each<[string | undefined, boolean | undefined]>([
  ["text/html; charset=utf-8", true],
  ["TEXT/PLAIN", true],
  ["application/json", true],
  ["application/ld+json", true],
  ["image/svg+xml", true],
  ["application/xhtml+xml", true],
  ["image/png", false],
  ["application/pdf", false],
  ["application/zip", false],
  ["video/mp4", false],
  ["application/octet-stream", undefined],
  [undefined, undefined],
])("[WF9] %s is text: %s", (header, expected) => {
  expect(isText(contentTypeOf(header))).toBe(expected);
});

test("[WF9] what does not say what it is must look like text", () => {
  expect(looksLikeText(Buffer.from("plain"))).toBe(true);
  expect(looksLikeText(bytes(0x7f, 0x45, 0x4c, 0x46, 0))).toBe(false);
  expect(looksLikeText(bytes(0xff, 0xfe, 0x61, 0))).toBe(true);
});
