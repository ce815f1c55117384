// How the page looks. Colours are named by what they stand for, once for light and once for dark.

export const PAGE_STYLE: string = `
:root{color-scheme:light dark;
--page:#f7f7f8;--card:#fff;--line:#e4e5e9;--soft:#eff0f3;--text:#1b1d22;--muted:#676b76;--faint:#9a9eaa;
--accent:#3b5bdb;--model:#4c6ef5;--wait:#bac8ff;--tool:#0ca678;--hook:#9775fa;--round:#ced4da;--commit:#868e96;
--effect:#f59f00;--failed:#e03131;--parked:#f08c00;--selected:#e7edff}
@media (prefers-color-scheme:dark){:root{
--page:#121317;--card:#1a1b20;--line:#2b2d35;--soft:#22242b;--text:#e9eaee;--muted:#9ea2ae;--faint:#6d717d;
--accent:#91a7ff;--model:#748ffc;--wait:#364fc7;--tool:#38d9a9;--hook:#b197fc;--round:#495057;--commit:#868e96;
--effect:#fcc419;--failed:#ff6b6b;--parked:#ffa94d;--selected:#26304f}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
-webkit-font-smoothing:antialiased}
main{max-width:1480px;margin:0 auto;padding:28px 28px 64px}
h1{font-size:22px;line-height:1.25;font-weight:650;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:15px;font-weight:650;margin:0}
.sub{color:var(--muted);margin:4px 0 0;overflow-wrap:anywhere}
.mono,pre,.num{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(132px,1fr));gap:12px;margin:22px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px;min-width:0}
.tile dt{color:var(--muted);font-size:12px;margin:0}
.tile dd{font-size:20px;font-weight:620;margin:2px 0 0;font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.tile small{display:block;color:var(--muted);font-size:12px;min-height:18px}
.tile small.bad{color:var(--failed)}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;overflow:hidden;margin-top:20px}
.bar{display:flex;flex-wrap:wrap;align-items:center;gap:8px 10px;padding:12px 16px;border-bottom:1px solid var(--line)}
.bar h2{margin-right:6px}
.grow{flex:1}
select,input[type=search],button{font:inherit;font-size:13px;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:7px;height:30px;padding:0 10px}
select{width:190px}
input[type=search]{width:150px}
button{cursor:pointer}
button:hover{background:var(--soft)}
button[aria-pressed=true]{background:var(--selected);border-color:var(--accent)}
button .n{color:var(--muted);font-variant-numeric:tabular-nums;margin-left:4px}
:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;padding:8px 16px;color:var(--muted);font-size:12px;border-bottom:1px solid var(--line)}
.legend i{display:inline-block;width:14px;height:8px;border-radius:2px;margin-right:6px}
.work{display:flex;align-items:stretch;min-height:240px}
.rows{position:relative;flex:1;min-width:0;height:min(640px,68vh);overflow-y:auto;overflow-x:hidden}
.rows:focus-visible{outline-offset:-2px}
.space{position:relative}
.row{position:absolute;left:0;right:0;height:26px;display:grid;grid-template-columns:minmax(220px,34%) 1fr 84px;align-items:center;cursor:default;
border-bottom:1px solid transparent}
.row:hover{background:var(--soft)}
.row.on{background:var(--selected)}
.row.head{height:38px;background:var(--soft);border-bottom-color:var(--line);font-weight:600}
.name{display:flex;align-items:center;min-width:0;height:100%;padding-left:12px;white-space:nowrap}
.fold{flex:none;width:16px;color:var(--faint);text-align:center;font-size:10px;cursor:pointer}
.dot{flex:none;width:8px;height:8px;border-radius:2px;margin-right:8px}
.label{flex:none;max-width:80%;overflow:hidden;text-overflow:ellipsis}
.more{color:var(--muted);font-weight:400;font-size:12px;margin-left:8px;overflow:hidden;text-overflow:ellipsis;flex:0 1000 auto;min-width:0}
.tag{flex:none;font-size:11px;line-height:16px;font-weight:500;color:var(--muted);border:1px solid var(--line);border-radius:4px;padding:0 5px;margin-left:8px;background:var(--card)}
.tag.failed{color:var(--failed);border-color:currentColor}
.tag.parked,.tag.open{color:var(--parked);border-color:currentColor}
.lane{position:relative;height:100%;margin:0 8px;border-left:1px solid var(--line)}
.grid{position:absolute;top:0;bottom:0;width:1px;background:var(--line);opacity:.7}
.tick{position:absolute;top:11px;font-size:11px;font-weight:400;color:var(--muted);padding-left:4px;white-space:nowrap}
.span{position:absolute;top:7px;height:12px;min-width:2px;border-radius:3px;overflow:hidden}
.span.round{top:12px;height:2px;border-radius:1px}
.span.turn{top:10px;height:6px}
.span u{position:absolute;inset:0 auto 0 0;background:var(--wait)}.k-first{background-color:var(--wait)}
.span.replayed{opacity:.55;background-image:repeating-linear-gradient(135deg,transparent 0 3px,var(--card) 3px 5px)!important}
.span.open{background-image:linear-gradient(90deg,transparent 40%,var(--card))!important}
.took{text-align:right;padding-right:14px;color:var(--muted);font-size:12px;font-variant-numeric:tabular-nums;white-space:nowrap}
.k-turn{background-color:var(--accent)}.k-round{background-color:var(--round)}.k-model{background-color:var(--model)}
.k-tool{background-color:var(--tool)}.k-attempt{background-color:var(--commit)}.k-wait{background-color:var(--effect)}
.k-effect{background-color:var(--effect)}.k-hook{background-color:var(--hook)}.k-commit{background-color:var(--commit)}
.k-note{background-color:var(--faint)}.k-failed{background-color:var(--failed)}.k-parked{background-color:var(--parked)}
.empty{padding:48px 16px;text-align:center;color:var(--muted)}
aside{flex:none;width:400px;max-width:45%;border-left:1px solid var(--line);height:min(640px,68vh);overflow:auto;padding:14px 16px}
aside[hidden]{display:none}
aside header{display:flex;align-items:flex-start;gap:8px}
aside header h3{flex:1;margin:0;font-size:15px;overflow-wrap:anywhere}
aside dl{display:grid;grid-template-columns:auto 1fr;gap:4px 14px;margin:12px 0;font-size:13px}
aside dt{color:var(--muted)}
aside dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
pre{margin:0;padding:12px;background:var(--soft);border-radius:8px;font-size:12px;line-height:1.5;white-space:pre-wrap;overflow-wrap:anywhere}
.scroll{overflow:auto;max-height:420px}
table{border-collapse:collapse;width:100%;font-size:13px}
th,td{padding:7px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}
th{position:sticky;top:0;background:var(--card);color:var(--muted);font-weight:500;font-size:12px;box-shadow:0 1px 0 var(--line)}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2),th:nth-child(3),td:nth-child(3){text-align:left}
th:first-child,td:first-child{padding-left:16px}th:last-child,td:last-child{padding-right:16px}
td.id{max-width:200px;overflow:hidden;text-overflow:ellipsis}
tr:last-child td{border-bottom:0}
tfoot td{font-weight:620;border-top:1px solid var(--line)}
td.bad{color:var(--failed)}
td button{height:auto;padding:0;border:0;background:none;color:var(--accent);max-width:100%;overflow:hidden;text-overflow:ellipsis;text-align:left;font-size:13px}
td button:hover{text-decoration:underline;background:none}
kbd{font:inherit;font-size:11px;border:1px solid var(--line);border-radius:4px;padding:0 4px;background:var(--card)}
.hint{padding:8px 16px;color:var(--muted);font-size:12px;border-top:1px solid var(--line)}
@media (max-width:900px){main{padding:16px}.work{flex-direction:column}aside{width:auto;max-width:none;border-left:0;border-top:1px solid var(--line);height:auto}}
`;
