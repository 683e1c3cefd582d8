//! Texts as models write them, and as they should not, for the tests of the layout.

pub const CORPUS: &[&str] = &[
    // Headings, emphasis, links, a rule.
    "# Layers\n\nA *model* is a **list** of `layers`, ~~never~~ always.\nSecond line with ***both***.\n\n## Links\n\nSee [the docs](https://example.org/a) or <https://example.org> or <me@example.org>,\nand ![a picture](x.png).\n\nSetext\n======\n\n---\n\nEnd.",
    // Lists: nested, numbered, with tasks, tight and loose.
    "Steps:\n\n1. First\n2. Second\n   - inner *one*\n   - inner two\n     1. deep\n     2. deeper\n3. Third\n\n- loose one\n\n- loose two\n\n  with a paragraph\n\n- [ ] open\n- [x] done\n\n10. ten\n11. eleven\n\n* other\n* marker\n\n- \n- after an empty one\n",
    // Code.
    "Here:\n\n```rust,ignore\nfn main() {\n\tprintln!(\"日本語 {}\", 1_000); // a long comment that does not fit into a narrow window\n}\n\n/* over\ntwo lines */\n```\nAnd\n```\nplain\n```\n\n    indented code\n      more\n\n~~~python\ndef f(x):\n    return {\"a\": [x]}\n~~~\n\n- in a list:\n\n  ```sh\n  echo \"hi\"\n  ```\n- end\n\n```json\n{\"open\": true,\n",
    // Tables.
    "| Device | Memory | Rate |\n|:-------|-------:|:----:|\n| RTX 4090 | 24 GiB | 1008 GB/s |\n| 7900 **XTX** | 24 GiB | `960` |\n| CPU<br>host | 日本語の説明文です | [x](https://example.org) |\n\nText after.\n\n| a |\n|---|\n\n| long header that will never fit | another rather long header |\n|---|---|\n| a cell with several words that must be wrapped | x |\n",
    // Quotes, alerts, lazy lines.
    "> quoted *text*\n> goes on\nlazily\n>\n> > nested\n> > - list\n>\n> ```c\n> int x;\n> ```\n\n> [!WARNING]\n> Mind the gap.\n\nafter\n",
    // CJK, emoji, combining marks, right-to-left.
    "# 日本語の見出し\n\n層を動かすと、速度が変わります。「括弧」もあります。長い文章は幅に合わせて折り返されます。\n\n- 👩\u{200d}👩\u{200d}👧\u{200d}👦 family\n- 🇨🇭🇯🇵 flags ❤\u{fe0f}\n- e\u{301}e\u{301} ｶﾞｷﾞ\n\nשלום עולם, زبان فارسی می\u{200c}خواهم\n\n| 名前 | עברית |\n|---|---|\n| 値 | 👩\u{200d}💻 |\n",
    // HTML, footnotes, definitions, mathematics.
    "<div>\nraw <b>html</b>\n</div>\n\ninline <b>bold</b><br>next &amp; &#27;[31m &lt;\n\nA note[^1] and a [reference][ref] and [later].\n\n[^1]: The note\n    goes on.\n\n[ref]: https://example.org \"title\"\n\n$x_1 * y_2 * z$ costs $5 or $10\n\n$$\n\\sum_{i=0}^n i_1\n$$\n\n[later]: /url\n",
    // Hostile.
    "a\x1b]52;c;aGk=\x07b \u{9b}31m \u{202e}txt.exe\u{202c} \u{e0041}\n\n`\x1b[2J` [x\x1b](\x1b]8;;http://e\x07) ![\u{202e}](y\u{200f})\n\n```\x1b[1m\n\x1b[31mred\r\n\ttab\u{2028}\n```\n\n| \x1b | \x07 |\n|---|---|\n| \u{85} | \u{0} |\n\n<\x1b[3m>\n\n[^\x1b]: x\n",
    // Blocks that change their meaning as they grow.
    "1. a\n\n2. b\n\ntext\n- a\n\n -b\n\n- c\n  d\n\n\n\n  e\nf\n===\n\na | b\n-|-\n1 | 2\nnot | a | row\n\n***\n\n* * *\n\n```\nx\n`````\n<!-- comment\n\nstill -->\n\n[a]: /x\n'title\nnot closed\n\n[a] [b]\n\n[b]: /y\n",
    // Windows line ends, tabs, trailing spaces, deep nesting, unbroken words.
    "line one\r\nline two  \r\n\r\n```\r\ncode\r\n```\r\n\r\n- a\r\n\t- b\r\n\r\n>>>>>>>>>>>>>>>>>>>> deep\r\n\r\n- - - - - - - - - x\r\n\r\nincomprehensibilities_and_other_words_without_any_space_in_them_at_all\rlone return\n\n#### four\n##### five\n###### six\n####### none",
];
