"""Makes chat/: conversations as transformers' apply_chat_template renders and encodes them."""

import json
import pathlib
import re

import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>",
           "<|start_header_id|>", "<|end_header_id|>", "<bos>", "<eos>", "<start_of_turn>",
           "<end_of_turn>", "[INST]", "[/INST]"]

# The templates of published models, without their parts for tools.
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}")
QWEN25 = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant") %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim "
    "+ '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
    "{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""
GEMMA2 = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + "
    "message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{'<start_of_turn>model\\n'}}{% endif %}")
GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {{- message['content'] | trim }}
    {{- '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}"""
MISTRAL1 = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ message['content'] + eos_token}}{% endif %}{% endfor %}")
MISTRAL2 = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system_message is defined %}
            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- ' [INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- else %}
        {{- ' ' + message['content'] + eos_token}}
    {%- endif %}
{%- endfor %}"""
MISTRAL3 = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- endif %}
{%- endfor %}"""
NEMO = MISTRAL3.replace('"[INST] "', '"[INST]"').replace('" " + message["content"]|trim', 'message["content"]')
TEMPLATES = {  # with the texts of BOS and EOS
    "chatml": (CHATML, None, "<|im_end|>"), "qwen2.5": (QWEN25, None, "<|im_end|>"),
    "llama3": (LLAMA3, "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.1": (LLAMA31, "<|begin_of_text|>", "<|eot_id|>"),
    "gemma2": (GEMMA2, "<bos>", "<eos>"), "gemma3": (GEMMA3, "<bos>", "<eos>"),
    "mistral-v1": (MISTRAL1, "<s>", "</s>"), "mistral-v2": (MISTRAL2, "<s>", "</s>"),
    "mistral-v3": (MISTRAL3, "<s>", "</s>"), "mistral-nemo": (NEMO, "<s>", "</s>"),
}
SPECIAL_OF = {"chatml": (None, "<|im_end|>"), "llama3": ("<|begin_of_text|>", "<|eot_id|>"),
              "gemma": ("<bos>", "<eos>"), "mistral": ("<s>", "</s>")}


def own_templates():
    """Those that Binade writes, from its source."""
    source = (HERE.parent.parent / "src/binade/data/chat/chat_template.cpp").read_text()
    for name, jinja in re.findall(r'case ChatFormat::(\w+):\s+return R"\((.*?)\)"', source, re.DOTALL):
        TEMPLATES["binade-" + name] = (jinja, *SPECIAL_OF[name])
    assert len(TEMPLATES) == 14


own_templates()
# Mistral v3 and Nemo write a system message before a last message of the user only.
NO_SYSTEM = {"gemma2", "mistral-v1", "mistral-v3", "mistral-nemo"}

TURNS = [("user", "  What is 7 * 8?\n"), ("assistant", "\n56. Easy \u2014 na\u00efve, even.  "),
         ("user", "\u4e2d\u6587 and \U0001f600?"), ("assistant", "<s> is a token; [INST] too.")]
CONVERSATIONS = [
    TURNS[:2], TURNS,
    [("system", " Be brief.\n")] + TURNS[:2], [("system", "Be brief.")] + TURNS,
    TURNS[:2] + [("user", "\u2003padded\u00a0\t"), ("assistant", "")],
]


def byte_level():
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def metaspace():
    """Spaces as U+2581, one before the text: ids depend on where a text begins."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=140, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def corpus():
    return ["What is the answer? It is easy, even naive. Be brief; is a token too.\n"] * 4 + [
        content for _, content in TURNS]


def main():
    folder = HERE / "chat"
    folder.mkdir(exist_ok=True)
    cases, prompts = [], []
    for kind, made in (("byte_level", byte_level()), ("metaspace", metaspace())):
        made.save(str(folder / f"{kind}.json"), pretty=False)
        for name, (template, bos, eos) in TEMPLATES.items():
            fast = transformers.PreTrainedTokenizerFast(
                tokenizer_object=made, bos_token=bos, eos_token=eos, chat_template=template)
            for conversation in CONVERSATIONS:
                if conversation[0][0] == "system" and name in NO_SYSTEM:
                    continue
                messages = [{"role": r, "content": c} for r, c in conversation]
                text = fast.apply_chat_template(messages, tokenize=False)
                ids = fast.apply_chat_template(messages, tokenize=True, return_dict=False)
                assert ids == fast(text, add_special_tokens=False)["input_ids"]
                cases.append({"tokenizer": kind, "template": name, "messages": messages,
                              "text": text, "ids": list(ids)})
            for count in (1, 3):
                messages = [{"role": r, "content": c} for r, c in TURNS[:count]]
                ids = fast.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
                prompts.append({"tokenizer": kind, "template": name, "messages": messages, "ids": list(ids)})
    templates = {name: {"jinja": t, "bos": b or "", "eos": e} for name, (t, b, e) in TEMPLATES.items()}
    (folder / "cases.json").write_text(
        json.dumps({"oracle": f"transformers {transformers.__version__}", "templates": templates,
                    "cases": cases, "prompts": prompts}, separators=(",", ":"), sort_keys=True) + "\n")
    print(len(cases), "cases,", sum(f.stat().st_size for f in folder.iterdir()), "bytes")


if __name__ == "__main__":
    main()
