//! What is said in the scenes.

pub const QUESTION: &str = "What changes when I move layers from the CPU to the second GPU?";

pub const ANSWER: &str = "\
# Moving layers

A token passes through the layers **in order**, so its time is the *sum* over the devices:

1. each device reads its own weights once, `bytes / bandwidth`;
2. between two devices the activations hop, some 20 KiB a token.

| device | layers | ms/token |
|:-------|-------:|---------:|
| 4090 | 34 | 11.1 |
| 7900 XTX | 22 | 7.8 |
| CPU | 8 | 7.4 |

The eight layers on the CPU take nearly the time of twenty-two on the second card. In code:

```python
def token_ms(parts):
    # Devices work one after the other.
    return sum(p.bytes / p.rate for p in parts) * 1e3
```

See [the forecast](https://example.org/forecast) for more. 日本語の文も揃います, and so do emoji: 👩‍💻 🚀 é ñ.";

pub const SECOND_QUESTION: &str = "And what happens to the answer that is streaming right now?";

pub const STREAMED: &str = "\
Nothing is lost. The answer goes on **where it is**, while the weights of the moved layers are read to their new device \
in the background:

- the old placement keeps working until all is staged;
- the switch happens before the next prompt is computed, and moves the KV cache of these layers;
- the stall is a few milliseconds, as only";

pub const AFTER_SWITCH: &str = "\
Now all 64 layers lie on the two cards. Each token reads 19.5 GB of weights, and none of them over the slow path any \
more, so the rate has gone up as it was forecast: from 38 to 44 tokens a second";

pub const THOUGHT: &str = "<think>\nThe user wants the share of the CPU. Total 26.5 ms, of which 7.4 ms are on the CPU.\n\n\
So 7.4 / 26.5 = 28 %.\n</think>\n\nAbout **28 %** of each token's time is spent on the CPU.";

pub const SYSTEM: &str = "You are a careful assistant.\nAnswer in short sentences, and say when you are not sure.";

/// One paragraph of many.
pub const PARAGRAPH: &str = "\
The weights of a layer are read once for every token, whatever the token is, and that is why the *bandwidth* of the \
memory in which they lie decides over the rate at which a model answers. A card reads its own memory at nearly a \
terabyte a second; the processor manages a third of that at best, and the bus between them far less. Moving a layer is \
therefore a trade: `bytes` of one memory against `bytes` of another.\n\n\
- attention reads the cache, which grows with the conversation;\n\
- the feed-forward part reads nothing but weights.\n\n";
