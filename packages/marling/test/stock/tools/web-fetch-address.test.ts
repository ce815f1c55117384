// Which addresses are public, and which are not, however they are written.

import { expect, test } from "vitest";
import { type AddressKind, addressKind } from "../../../src/stock/tools/web-fetch/address.ts";
import { fetchLimits, type WebFetchOptions } from "../../../src/stock/tools/web-fetch/fetch-options.ts";
import { checkHost, checkRedirect, checkUrl } from "../../../src/stock/tools/web-fetch/reach.ts";

test.each<[string, AddressKind]>([
  ["1.1.1.1", "public"],
  ["8.8.8.8", "public"],
  ["9.255.255.255", "public"],
  ["11.0.0.0", "public"],
  ["100.63.255.255", "public"],
  ["100.128.0.0", "public"],
  ["126.255.255.255", "public"],
  ["128.0.0.0", "public"],
  ["169.253.255.255", "public"],
  ["169.255.0.0", "public"],
  ["172.15.255.255", "public"],
  ["172.32.0.0", "public"],
  ["192.167.255.255", "public"],
  ["192.169.0.0", "public"],
  ["223.255.255.255", "public"],
  ["0.0.0.0", "unspecified"],
  ["0.1.2.3", "unspecified"],
  ["10.0.0.1", "private"],
  ["10.255.255.255", "private"],
  ["172.16.0.0", "private"],
  ["172.31.255.255", "private"],
  ["192.168.0.1", "private"],
  ["192.168.255.255", "private"],
  ["127.0.0.1", "loopback"],
  ["127.255.255.254", "loopback"],
  ["169.254.0.1", "link_local"],
  ["169.254.169.254", "metadata"],
  ["169.254.170.2", "metadata"],
  ["100.100.100.200", "metadata"],
  ["168.63.129.16", "metadata"],
  ["100.64.0.0", "shared"],
  ["100.127.255.255", "shared"],
  ["192.0.0.192", "reserved"],
  ["192.0.2.1", "reserved"],
  ["198.18.0.1", "reserved"],
  ["198.19.255.255", "reserved"],
  ["198.51.100.1", "reserved"],
  ["203.0.113.1", "reserved"],
  ["192.88.99.1", "translated"],
  ["224.0.0.1", "multicast"],
  ["239.255.255.255", "multicast"],
  ["240.0.0.1", "reserved"],
  ["255.255.255.255", "reserved"],
  ["2606:4700:4700::1111", "public"],
  ["2a00:1450:4001:80b::200e", "public"],
  ["::", "unspecified"],
  ["::1", "loopback"],
  ["0:0:0:0:0:0:0:1", "loopback"],
  ["::ffff:127.0.0.1", "translated"],
  ["::ffff:8.8.8.8", "translated"],
  ["::ffff:a9fe:a9fe", "translated"],
  ["::127.0.0.1", "translated"],
  ["::7f00:1", "translated"],
  ["64:ff9b::a9fe:a9fe", "translated"],
  ["64:ff9b:1::1", "translated"],
  ["2002:7f00:1::", "translated"],
  ["2001:0:1::1", "translated"],
  ["2001:2::1", "reserved"],
  ["2001:db8::1", "reserved"],
  ["3fff::1", "reserved"],
  ["100::1", "reserved"],
  ["5f00::1", "reserved"],
  ["fc00::1", "unique_local"],
  ["fdff:ffff::1", "unique_local"],
  ["fd00:ec2::254", "metadata"],
  ["fe80::1", "link_local"],
  ["fe80::1%eth0", "link_local"],
  ["febf::1", "link_local"],
  ["fec0::1", "private"],
  ["ff02::1", "multicast"],
  ["localhost", "reserved"],
  ["", "reserved"],
  ["127.1", "reserved"],
])("[WF1] [WF2] %s is %s", (address, kind) => {
  expect(addressKind(address)).toBe(kind);
});

test.each([
  ["http://2130706433/", "127.0.0.1"],
  ["http://0x7f000001/", "127.0.0.1"],
  ["http://0177.0.0.1/", "127.0.0.1"],
  ["http://127.1/", "127.0.0.1"],
  ["http://０x7f.1/", "127.0.0.1"],
  ["http://0/", "0.0.0.0"],
  ["http://169.254.169.254./latest", "169.254.169.254"],
  ["http://[::ffff:127.0.0.1]/", "::ffff:7f00:1"],
  ["http://[::]/", "::"],
  ["https://[fd00::1]/", "fd00::1"],
])("[WF1] security rule 7: %s is refused as %s", async (text, address) => {
  const url = checkUrl(text);
  if (url.kind !== "ok") throw new Error("expected an address, found none");
  const checked = await checkHost(url.value, fetchLimits({}));
  expect(checked).toMatchObject({
    kind: "failed",
    failure: {
      code: "address_refused",
      class: "permission_denied",
      message: expect.stringContaining(` at ${address},`),
    },
  });
});

const reached = async (text: string, options: WebFetchOptions): Promise<string> =>
  (await checkHost(new URL(text), fetchLimits(options))).kind;

test.each<[string, WebFetchOptions, "ok" | "failed"]>([
  ["http://127.0.0.1:81/", { allow: ["127.0.0.1:81"] }, "ok"],
  ["http://127.0.0.1:82/", { allow: ["127.0.0.1:81"] }, "failed"],
  ["http://127.0.0.1/", { allow: ["127.0.0.1:80"] }, "ok"],
  ["https://127.0.0.1/", { allow: ["127.0.0.1:443"] }, "ok"],
  ["https://127.0.0.1/", { allow: ["127.0.0.1:80"] }, "failed"],
  ["http://127.0.0.1:9999/", { allow: ["127.0.0.1"] }, "ok"],
  ["http://127.0.0.2/", { allow: ["127.0.0.1"] }, "failed"],
  ["http://[::1]:81/", { allow: ["[::1]:81"] }, "ok"],
  ["http://2130706433:81/", { allow: ["0x7f.1:81"] }, "ok"],
  ["http://169.254.169.254/", { allow: ["169.254.169.254"] }, "ok"],
  ["http://10.0.0.1/", { allowPrivate: true }, "ok"],
  ["http://127.0.0.1/", { allowPrivate: true }, "ok"],
  ["http://[fd00::1]/", { allowPrivate: true }, "ok"],
  ["http://100.64.0.1/", { allowPrivate: true }, "ok"],
  ["http://169.254.1.1/", { allowPrivate: true }, "ok"],
  ["http://169.254.169.254/", { allowPrivate: true }, "failed"],
  ["http://[fd00:ec2::254]/", { allowPrivate: true }, "failed"],
  ["http://0.0.0.0/", { allowPrivate: true }, "failed"],
  ["http://224.0.0.1/", { allowPrivate: true }, "failed"],
  ["http://[::ffff:10.0.0.1]/", { allowPrivate: true }, "failed"],
])("[WF1] %s with %j: %s", async (text, options, expected) => {
  expect(await reached(text, options)).toBe(expected);
});

test.each<[readonly string[], "ok" | "failed"]>([
  [["1.1.1.1"], "ok"],
  [["1.1.1.1", "2606:4700::1"], "ok"],
  [["1.1.1.1", "127.0.0.1"], "failed"],
  [["::1", "1.1.1.1"], "failed"],
  [[], "failed"],
])("[WF5] a name at %j: %s", async (addresses, expected) => {
  expect(await reached("http://rebind.example/", { resolve: async () => addresses })).toBe(expected);
});

test.each([
  ["ftp://example.com/", "url: expected http or https, found ftp."],
  ["file:///etc/passwd", "url: expected http or https, found file."],
  ["data:text/plain,x", "url: expected http or https, found data."],
  ["example.com", "url: expected an absolute address, found example.com"],
  [
    "http://ada:secret@example.com/",
    "url: expected an address without a user name and password, found one with them.",
  ],
  [`http://example.com/${"a".repeat(9_000)}`, "url: expected at most 8192 characters, found 9019."],
])("[WF3] %.40s is refused", (text, message) => {
  expect(checkUrl(text)).toEqual({
    kind: "failed",
    failure: { code: "invalid_url", class: "invalid_request", message },
  });
});

test.each<[string, string, WebFetchOptions, string]>([
  ["http://a.example/x/y", "../z?q#part", {}, "http://a.example/z?q"],
  ["http://a.example/", "https://b.example/", {}, "https://b.example/"],
  ["https://a.example/", "//b.example/", {}, "https://b.example/"],
  ["https://a.example/", "http://a.example/", { allowDowngrade: true }, "http://a.example/"],
  ["https://a.example/", "http://b.example/", {}, "a.example redirects from https to http, to b.example."],
  [
    "https://a.example/",
    "https://u:p@b.example/",
    {},
    "a.example redirects to an address that is refused: url: expected an address without a user name and password, found one with them.",
  ],
  [
    "https://a.example/",
    "javascript:alert(1)",
    {},
    "a.example redirects to an address that is refused: url: expected http or https, found javascript.",
  ],
  ["https://a.example/", "http://[broken", {}, "a.example redirects to something that is no address."],
])("[WF3] [WF4] a redirect from %s to %s with %j: %s", (from, location, options, expected) => {
  const checked = checkRedirect(new URL(from), location, fetchLimits(options));
  expect(checked.kind === "ok" ? checked.value.href : checked.failure.message).toBe(expected);
});

test.each<[WebFetchOptions, string]>([
  [{ timeoutMs: -1 }, "timeoutMs"],
  [{ maxBytes: 2, mostBytes: 1 }, "maxBytes"],
  [{ allow: ["http://a.example/"] }, "allow"],
  [{ allow: ["user@a.example"] }, "allow"],
  [{ allow: [""] }, "allow"],
])("[WF1] options %j are refused by name", (options, option) => {
  expect(() => fetchLimits(options)).toThrow(
    expect.objectContaining({ code: "invalid_options", details: { option } }),
  );
});
