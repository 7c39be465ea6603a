"""The checks of scripts/check-serve: check.py BINADE WORK SECONDS."""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import load  # noqa: E402


class Server:
    """A server of the run in the working folder, stopped at the end."""

    def __init__(self, binade, work, *options):
        self.log = work / "serve.log"
        self.process = subprocess.Popen(
            [binade, "serve", work / "run", "--port", "0", "--name", "tiny", *options],
            stdout=self.log.open("w"), stderr=subprocess.STDOUT)
        while not (found := re.search(r"at (http://127\.0\.0\.1:(\d+)) ", self.log.read_text())):
            if self.process.poll() is not None:
                sys.exit(f"check-serve: the server did not start: {self.log.read_text()}")
            time.sleep(0.05)
        self.url, self.port = found[1], int(found[2])

    def memory_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        expect(status == 0, f"exit code {status} after SIGTERM")


def expect(condition, message):
    if not condition:
        sys.exit(f"check-serve: FAILED: {message}")


def check_curl(server):
    def curl(path, *options):
        done = subprocess.run(["curl", "-sS", "--fail-with-body", *options, server.url + path],
                              capture_output=True, text=True)
        expect(done.returncode == 0, f"curl {path}: {done.stdout} {done.stderr}")
        return done.stdout

    expect(json.loads(curl("/health"))["status"] == "ok", "health")
    text = curl("/v1/completions", "-d", '{"prompt": "the", "max_tokens": 4, "stream": true}', "-N")
    expect(text.endswith("data: [DONE]\n\n"), "curl: streaming")
    old = curl("/v1/completions", "-d", '{"prompt": "the", "max_tokens": 4}', "--http1.0")
    expect(json.loads(old)["usage"]["completion_tokens"] == 4, "curl: HTTP/1.0")
    zipped = curl("/v1/models", "--compressed")
    expect(json.loads(zipped)["data"][0]["id"] == "tiny", "curl: compressed")
    print("curl: health, streaming, HTTP/1.0, compression")


def check_openai(server):
    import openai

    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    expect([model.id for model in client.models.list()] == ["tiny"], "openai: models")
    options = dict(model="tiny", prompt="the ", max_tokens=20, seed=3, logprobs=2, n=2)
    whole = client.completions.create(**options)
    parts = ["", ""]
    for event in client.completions.create(**options, stream=True,
                                           stream_options={"include_usage": True}):
        for choice in event.choices:
            parts[choice.index] += choice.text
        usage = event.usage
    expect(parts == [choice.text for choice in whole.choices], "openai: streamed completions")
    expect(usage.completion_tokens == whole.usage.completion_tokens == 40, "openai: usage")
    chat = dict(model="tiny", messages=[{"role": "user", "content": "hello"}], max_tokens=20, seed=1,
                logprobs=True, top_logprobs=3)
    answer = client.chat.completions.create(**chat)
    expect(len(answer.choices[0].logprobs.content[0].top_logprobs) == 3, "openai: top_logprobs")
    text = "".join(event.choices[0].delta.content or ""
                   for event in client.chat.completions.create(**chat, stream=True))
    expect(text == answer.choices[0].message.content, "openai: streamed chat")
    try:
        client.completions.create(model="tiny", prompt="the", max_tokens=100000)
        expect(False, "openai: a text past the context was accepted")
    except openai.BadRequestError as error:
        expect(error.code == "context_length_exceeded", f"openai: {error}")
    print("openai: models, completions, chat, both streamed, errors")


TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{context}}}}"
doc_to_target: "{{{{continuation}}}}"
target_delimiter: ""
"""


def texts_of(work):
    """Paragraphs of the documents, each of ASCII and shorter than the context."""
    source = (pathlib.Path(__file__).parents[2] / "docs" / "training.md").read_text()
    texts = [t for t in source.split("\n\n") if 60 < len(t) < 200 and t.isascii() and t[1] != " "]
    return texts[:12]


def run_harness(server, work, task):
    out = work / "harness"
    environment = os.environ | {"OPENAI_API_KEY": "none", "HF_DATASETS_OFFLINE": "1",
                                "HF_HUB_OFFLINE": "1", "HF_HOME": str(work / "huggingface")}
    done = subprocess.run(
        [pathlib.Path(sys.executable).parent / "lm_eval", "--model", "local-completions", "--tasks",
         task, "--include_path", work / "tasks", "--model_args",
         f"model=tiny,base_url={server.url}/v1/completions,num_concurrent=4,max_length=256",
         "--log_samples", "--output_path", out],
        env=environment, capture_output=True, text=True)
    expect(done.returncode == 0, f"lm_eval {task}:\n{done.stderr[-3000:]}")
    samples = max(out.rglob(f"samples_{task}_*.jsonl"), key=os.path.getmtime)
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    return sorted(rows, key=lambda row: row["doc_id"])


def check_harness(server, binade, work):
    texts = texts_of(work)
    tasks = work / "tasks"
    tasks.mkdir(exist_ok=True)
    data = tasks / "texts.jsonl"
    data.write_text("".join(json.dumps({"context": t[0], "continuation": t[1:]}) + "\n" for t in texts))
    (tasks / "scores.yaml").write_text(
        TASK.format(name="binade_scores", data=data, kind="loglikelihood") + "metric_list: [{metric: acc}]\n")
    (tasks / "texts.yaml").write_text(
        TASK.format(name="binade_texts", data=data, kind="generate_until") +
        'generation_kwargs: {until: ["\\n"], max_gen_toks: 24}\nmetric_list: [{metric: exact_match}]\n')
    worst = 0
    for text, row in zip(texts, run_harness(server, work, "binade_scores")):
        (work / "text.txt").write_text(text)
        done = subprocess.run([binade, "eval", work / "run", "--data", work / "text.txt", "--json"],
                              capture_output=True, text=True, check=True)
        loss = json.loads(done.stdout)
        score = float(row["resps"][0][0][0])
        difference = abs(-score / loss["tokens"] - loss["loss"])
        worst = max(worst, difference)
        expect(difference < 2e-6, f"lm_eval: {-score / loss['tokens']}, eval: {loss['loss']}")
    for text, row in zip(texts, run_harness(server, work, "binade_texts")):
        done = subprocess.run([binade, "generate", work / "run", "--prompt", text[0], "--tokens", "24",
                               "--temperature", "0", "--stop", "\\n", "--json"],
                              capture_output=True, text=True, check=True)
        expect(row["resps"][0][0] == json.loads(done.stdout)["text"], "lm_eval: generate_until")
    print(f"lm_eval: {len(texts)} texts: loss as eval's to {worst:.1e} per token; texts as generate's")


def main():
    binade, work, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3])
    server = Server(binade, work, "--chat-format", "chatml")
    check_curl(server)
    check_openai(server)
    check_harness(server, binade, work)
    server.stop()
    server = Server(binade, work, "--queue", "128")
    expect(math.isfinite(server.memory_mib()), "memory")
    load.check_load(server, seconds, expect)
    server.stop()
    print("check-serve: passed")


main()
