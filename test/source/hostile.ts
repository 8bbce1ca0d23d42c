const zeros = "0".repeat(64);
const deep = `${"[".repeat(6000)}${"]".repeat(6000)}`;

/** One a line, to be read at a glance. */
const lines = (text: string) => text.split("\n").filter((line) => line !== "");

/** Header values nobody sends: variations of a genuine one, and plain nonsense. None is genuine. */
export function hostileHeaders(genuine: string): string[] {
  const timestamps = [
    "",
    "-1",
    "1e400",
    "NaN",
    "Infinity",
    "0x10",
    "1.5",
    "+1",
    " 1",
    "٣٤٥",
    "１２３",
    "1;",
    "1\0",
    "9".repeat(400),
  ];
  const characters = ["\0", "\ufeff", "💥", "\ud800", "\r\nx: y", " "];
  const long = [
    "9".repeat(16),
    "a".repeat(1_000_000),
    "t=1,".repeat(1000),
    "v1,".repeat(10_000),
    `v1=${zeros},`.repeat(10_000),
    `v1,${zeros} `.repeat(1000),
  ];
  const almost = [
    genuine.slice(0, -1),
    genuine.slice(1),
    genuine.toUpperCase(),
    genuine.replaceAll(/[0-9]/g, "٣"),
    genuine.split("").toReversed().join(""),
    ...["x?", "?x", '"?"', "?\0"].map((frame) => frame.replaceAll("?", () => genuine)),
  ];
  const nonsense = lines(`
t
t=
v1=
t=1,t=2
t=1;v1=2
t=1,v1=%00
,
,,,,
=
==
null
undefined
[object Object]
__proto__
constructor
sha256=
sha256=zz
sha1=abc
v0=
v0=zz
v1,
v1a,
v1,=
v1,====
v1a,AAAA
v2,abc
`);
  const dated = timestamps.map((timestamp) => `t=${timestamp},v1=${zeros}`);
  const values = [...timestamps, ...dated, ...characters, ...long, ...almost, ...nonsense];
  return values.filter((value) => value !== genuine && value !== "");
}

/** Bodies that parsers stumble over: plain nonsense, and `base`, a JSON object, with something odd added. */
export function hostileBodies(base: string): Buffer[] {
  const odd = lines(`
"id":null
"id":1
"id":{}
"id":[]
"id":true
"id":""
"id":9007199254740993
"id":1e400
"id":"\\u0000"
"id":"\\ud800"
"id":"a\\nb"
"id":"\\u009f"
"id":"${"x".repeat(256)}"
"id":"1","id":"2"
"type":null
"type":7
"type":{}
"type":"\\u0000"
"type":"\\udfff"
"type":"${"x".repeat(256)}"
"__proto__":{"id":"evil"}
"constructor":{"prototype":{"id":"evil"}}
"toString":1,"valueOf":1
"created":{"toString":1}
"created":1e400
"created":-1
"created":"x"
"created":8.64e15
"data":null
"data":[]
"data":{"object":null}
"data":{"object":{"id":{}}}
"data":{"object":7}
"account":7
"account":{}
"account":"\\u0000"
"account":"${"a".repeat(200)}"
"account":"ä"
"livemode":null
"livemode":"true"
"object":null
"object":"v2.core.event"
"object":"list"
"event":{}
"event":null
"event":[]
"event":{"type":7}
"event":{"type":"x","timestamp":"never"}
"installation":{"id":9007199254740993}
"installation":{"id":{}}
"team_id":7
"guild_id":{}
"action":{}
"challenge":{}
"n":123456789012345678901234567890
"s":"\\ud83d\\ude00"
"text":"\\u0000"
`);
  const fields = ["x", "id", "type", "created", "account", "data", "event", "event_time", "team_id"];
  const nonsense = lines(`
null
0
""
[]
[{}]
{}
{
}
{"id":}
NaN
undefined
[object Object]
a=b
payload=
payload=%7B%7D
payload=%7B
payload={}
payload=%FF
command=/x
ssl_check=2
=&=&=
`);
  const nested = [deep, "[".repeat(6000), `${'{"a":'.repeat(6000)}1${"}".repeat(6000)}`];
  const members = [...odd, ...fields.map((field) => `"${field}":${deep}`)];
  const objects = members.map((member) => `${base.slice(0, -1)},${member}}`);
  const texts = ["", " ", "\0", ...nonsense, ...nested, ...objects];
  const bytes = [
    [0xff],
    [0xc0, 0x80],
    [0xed, 0xa0, 0x80],
    [0xef, 0xbb, 0xbf],
    [0xf8, 0x88, 0x80, 0x80, 0x80],
  ];
  return [...texts.map((text) => Buffer.from(text, "utf8")), ...bytes.map((some) => Buffer.from(some))];
}
