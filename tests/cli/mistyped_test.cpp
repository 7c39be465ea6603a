#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "cli/command.h"

// Command lines that people mistype: one line in one style, in the words as they were typed, and a
// suggestion only if it is near.
namespace binade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Mistyped {
  const char* line;
  const char* message;
};

constexpr Mistyped mistyped[] = {
    {"train --learning-rate fast", "config: --lr: expected a number from 0 to 100, found \"fast\""},
    {"train --epochs 3 --steps 8",
     "config: --steps and --epochs: expected one of steps and epochs"},
    {"train --max-steps 3 --num-train-epochs 8", "config: --steps and --epochs: expected one of"},
    {"train --batch-size 8 --batch 4",
     "train: --batch: expected one value, found it given twice: '8' and '4'"},
    {"train --output_dir", "train: --out: expected a value after it, found none"},
    {"train --learning-rat 3", "did you mean --lr?"},
    {"train --gradient-checkpointing", "did you mean --activations?"},
    {"train --stpes 3", "did you mean --steps?"},
    {"train --widht 64", "did you mean --width?"},
    {"train --checkpoint 5", "did you mean --checkpoint-every?"},
    {"train --batch 8 --batch 4",
     "train: --batch: expected one value, found it given twice: '8' and '4'; see '"},
    {"train --steps=8 --lr 1 --steps 9", "--steps: expected one value, found it given twice: '8'"},
    {"train -x", "train: -x: expected a known option, found none of that name; see '"},
    {"train --lr -.5", "config: --lr: expected a number from 0 to 100, found -.5"},
    {"train --lr -5", "config: --lr: expected a number from 0 to 100, found -5"},
    {"train --steps", "train: --steps: expected a value after it, found none"},
    {"train --steps= 5", "train: --steps: expected a value after it, found none"},
    {"train --steps 1e-3 --dry-run",
     "--steps: expected a whole number from 1 to 1000000000, found 1e-3"},
    {"train --steps 1.5 --dry-run",
     "--steps: expected a whole number from 1 to 1000000000, found 1.5"},
    {"train --steps 1e12 --dry-run", "to 1000000000, found 1e12"},
    {"train --steps ten", "--steps: expected a whole number from 1 to 1000000000, found \"ten\""},
    {"train --quiet=maybe", "train: --quiet: expected no value, found 'maybe'"},
    {"train --quiet --json", "train: --quiet excludes --json; see '"},
    {"train a.toml b.toml", "train: 'b.toml': expected no further word, found one more"},
    {"policy --jsn",
     "policy: --jsn: expected a known option, found none of that name; did you "
     "mean --json? See '"},
    {"plan --rank 2",
     "plan: --rank: expected a known option, found none of that name; did you "
     "mean --ranks?"},
    {"plan --per-node 2", "plan: --per-node requires --ranks; see '"},
    {"plan --memory 16",
     "config: --memory: expected auto, least, or a size with its unit, such as 16GB or 24GiB, "
     "found \"16\"; did you mean --memory 16GB?"},
    {"plan --memory 16XB", "found \"16XB\""},
    {"train --recompute", "train: --recompute: expected --activations recompute, found the option"},
    {"train --activations none", "expected auto, keep, lean, recompute, a number of blocks"},
    {"plan --memory", "plan: --memory: expected a value after it, found none"},
    {"plan --ranks many", "plan: --ranks: expected a whole number from 1 to 4096, found 'many'"},
    {"generate --promtp hi",
     "generate: --promtp: expected a known option, found none of that "
     "name; did you mean --prompt?"},
    {"generate runs/1 --promtp hi", "generate: --promtp: expected"},
    {"generate runs/1 hi", "generate: 'hi': expected no further word, found one more"},
    {"generate", "generate: FOLDER: expected a value, since it is required, found none"},
    {"generate runs/1 --max-new-tokens 5 --tokens 6", "--tokens: expected one value"},
    {"generate runs/1 --temp 0", "did you mean --temperature?"},
    {"generate runs/1 --temperature hot",
     "generate: --temperature: expected a number, found 'hot'"},
    {"generate runs/1 --count 0",
     "generate: --count: expected a whole number from 1 to 1000000, found '0'"},
    {"eval --dat x",
     "eval: --dat: expected a known option, found none of that name; did you mean "
     "--data?"},
    {"eval runs/1 --precision fp31",
     "eval: --precision: expected one of fp32, tf32, bf16, fp16, fp8, found 'fp31'"},
    {"export runs/1", "export: TO: expected a value, since it is required, found none"},
    {"import a b --dtype f23", "import: --dtype: expected one of f32, bf16, f16, found 'f23'"},
    {"inspect --hist x",
     "inspect: --hist: expected a known option, found none of that name; did "
     "you mean --histogram?"},
    {"report", "report: RUN: expected a value, since it is required, found none"},
    {"launch train", "launch: --ranks: expected a value, since it is required, found none"},
    {"launch --rank 2 train",
     "launch: --rank: expected a known option, found none of that name; "
     "did you mean --ranks?"},
    {"launch --nproc two train", "launch: --ranks: expected a whole number from 1 to 4096"},
    {"launch -n x train", "launch: --ranks: expected a whole number from 1 to 4096, found 'x'"},
    {"launch -n 2 -n 3 train", "launch: -n: expected one value, found it given twice: '2' and '3'"},
    {"launch -n 2 train --learning-rat 3", "train: --learning-rat: expected"},
    {"tokenize", "tokenize: a command of its own: expected one of train, apply, found none"},
    {"tokenize trian", "There is no command 'trian'; did you mean 'train'? See '"},
    {"tokenize train --vocab-size 3 --data x t", "--vocab: expected a whole number from 261 to"},
    {"tokenize train --data x --vocab 5 t",
     "--vocab: expected a whole number from 261 to 1048576, "
     "found '5'"},
    {"bench step --step 0",
     "bench step: --step: expected a known option, found none of that name; "
     "did you mean --steps?"},
    {"bench step --steps 0", "--steps: expected a whole number from 1 to 1000000, found '0'"},
    {"compare --precison fp32", "did you mean --precision?"},
    {"sweep --by layers", "sweep: --by: expected one of layer, matmul, found 'layers'"},
    {"formats 1.5x", "formats: NUMBER: expected a number, found '1.5x'"},
    {"formats --scale 2", "formats: --scale requires NUMBER"},
    {"info --jason",
     "info: --jason: expected a known option, found none of that name; did you "
     "mean --json?"},
    {"info --json=3", "info: --json: expected no value, found '3'"},
    {"version now", "version: 'now': expected options only, found one more"},
    {"help fromats", "There is no command 'fromats'; did you mean 'formats'?"},
    {"--verison",
     "--verison: expected a known option, found none of that name; did you mean "
     "--version?"},
};

// Forty that people would type, from habits of other programs and of haste.
constexpr Mistyped habits[] = {
    {"train --bf16",
     "train: --bf16: expected a known option, found none of that name; did you mean --precision?"},
    {"train --fp8 --steps 3", "did you mean --precision?"},
    {"train --precision bfloat16", "found \"bfloat16\"; did you mean --precision bf16?"},
    {"train --precision BF16", "found \"BF16\"; did you mean --precision bf16?"},
    {"train --precision fp", "config: --precision: expected one of fp32, tf32, bf16, fp16, fp8"},
    {"train --lr 0,001", "config: --lr: expected a number from 0 to 100, found \"0,001\""},
    {"train --lr=3e-4,", "config: --lr: expected a number from 0 to 100, found \"3e-4,\""},
    {"train --steps 10k", "expected a whole number from 1 to 1000000000, found \"10k\""},
    {"train --batch 0", "config: --batch: expected a whole number from 1 to 1048576, found 0"},
    {"train --device gpu", "found \"gpu\"; did you mean --device cuda?"},
    {"train --gpu 0",
     "train: --gpu: expected a known option, found none of that name; did you mean --device?"},
    {"train --model gpt", "found \"gpt\"; did you mean --model gpt2?"},
    {"train --preset gpt2-124M", "did you mean --preset gpt2-124m?"},
    {"train --optim adam",
     "config: --optimizer: expected one of adamw, lion, nadam, adafactor, muon, found \"adam\"; "
     "did you mean --optimizer adamw?"},
    {"train --lr-scheduler cosin", "did you mean --schedule cosine?"},
    {"train --dataset no-such-file.txt", "data: no-such-file.txt: expected a readable file"},
    {"train no-such.toml", "config: no-such.toml: expected a readable file, found No such file"},
    {"train --data=", "train: --data: expected a value after it, found none"},
    {"train --resume", "config: --resume: expected --out with the folder of the run to continue"},
    {"train --base-model no/such/model", "did you mean --init-from?"},
    {"train --lora 8", "did you mean --lora-rank?"},
    {"train --lora-r 8", "config: [lora] rank: expected --init-from with the model to adapt"},
    {"train --lora-r eight", "config: --lora-rank: expected a whole number from 0 to 65536"},
    {"train --epochs two", "config: --epochs: expected a number from 1e-06 to 1e+06, found"},
    {"train --num-epochs 0", "config: --epochs: expected a number from 1e-06 to 1e+06, found 0"},
    {"train --warmup-ratio 0.1", "did you mean --warmup?"},
    {"train --gradient_checkpointing", "train: --gradient_checkpointing: expected a known option"},
    {"train --seq-len 1M", "config: --context: expected a whole number from 1 to 1048576"},
    {"train -steps 3", "train: -steps: expected --steps, found it with one dash"},
    {"train steps 3", "train: steps: expected --steps, found no dashes"},
    {"train --metrics-file /no/such/folder/x.prom --dry-run",
     "--metrics-file /no/such/folder/x.prom: expected a file to write to, found No such file"},
    {"trian", "There is no command 'trian'; did you mean 'train'? See '"},
    {"generate no-such-run --promt hi", "did you mean --prompt?"},
    {"eval no-such-run --dataset x", "eval: no-such-run: expected a model's folder"},
    {"export no-such-run out.gguf --dtype q4", "export: --dtype: expected one of f32, bf16, f16"},
    {"launch --gpus two train", "launch: --ranks: expected a whole number from 1 to 4096"},
    {"launch -n 2 trian",
     "launch: command: expected train or reproduce, and its options, found trian"},
    {"tokenize-parquet bytes a.parquet a.bin", "expected the command of the Python package"},
    {"plan --gpu H10", "plan: --gpu: expected one of H200, H100, A100, RTX 4090, found 'H10'"},
    {"completions powershell", "expected one of bash, zsh, fish, found 'powershell'"},
};
static_assert(std::size(habits) == 40);

// What a message must tell a newcomer who does not see the mistake.
constexpr Mistyped puzzling[] = {
    {"train --precision fp16 fp8",
     "config: fp8: expected a readable file, found none of that name; a word that belongs to no "
     "option is a configuration file (TOML)"},
    {"train --memory 16 GB", "a word that belongs to no option is a configuration file"},
    {"train --resume nowhere", "a word that belongs to no option is a configuration file"},
    {"train \u2013steps 5",
     "train: '\u2013steps': expected options that begin with -- as the keyboard has it, found "
     "another dash, perhaps copied from a text"},
    {"train \u2014lr 1", "found another dash"},
    {"train --ranks 4", " launch -n 4 train'? See '"},
    {"train -n 4", " launch -n 4 train'? See '"},
    {"train --nproc-per-node 4", " launch -n 4 train'? See '"},
    {"launch train -n 2",
     "launch: --ranks: expected a value, since it is required, found none before 'train'; see '"},
    {"train --time-limit 2h",
     "config: --time-limit: expected a number of seconds from 0 to 1e+09, found \"2h\""},
    {"train --validation 10%",
     "config: --validation: expected a fraction from 1e-06 to 0.9, found \"10%\""},
    {"train --audit 5%", "config: --audit: expected a fraction from 0 to 1, found \"5%\""},
    {"export a b --dtype fp16",
     "export: --dtype: expected one of f32, bf16, f16, found 'fp16'; did you mean f16? See '"},
    {"export a b --type Q8_0", "found 'Q8_0'; did you mean q8_0? See '"},
    {"tokenize train --data x --vocab 300 --kind bpee t",
     "tokenize train: --kind: expected one of bpe, unigram, byte-bpe, found 'bpee'; did you mean "
     "bpe? See '"},
    {"lab tensorcore", "found 'tensorcore'; did you mean tensor-core?"},
    {"lab list", "found 'list'; 'binade lab' lists them"},
    {"train --recipe delayed,histroy=3", "did you mean history?"},
    {"train --init-from meta-llama/Llama-3-8B",
     "found nothing there; if it is a name on Hugging Face's hub: hf download "
     "meta-llama/Llama-3-8B "
     "--local-dir Llama-3-8B"},
    {"report /tmp",
     "config: /tmp: expected the folder of a run, with its config.toml, found a "
     "folder without one"},
    {"diff /tmp /tmp", "config: /tmp: expected the folder of a run"},
    {"at /tmp --step 5", "config: /tmp: expected the folder of a run"},
};

TEST(Mistyped, IsOneMessageInTheWordsAsTyped) {
  std::vector<Mistyped> all(std::begin(mistyped), std::end(mistyped));
  all.insert(all.end(), std::begin(habits), std::end(habits));
  all.insert(all.end(), std::begin(puzzling), std::end(puzzling));
  for (const auto& [line, message] : all) {
    const Outcome outcome = binade(line);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_THAT(outcome.out, IsEmpty()) << line;
    EXPECT_THAT(outcome.err, StartsWith("binade: ")) << line;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << line;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

// Options with limits: the first values beyond them are refused, and the limits themselves are not,
// as the next mistake on the line shows.
struct Limited {
  const char* command;
  const char* option;
  const char *below, *lowest, *highest, *above;
  const char* next;  // mistake
  const char* naming;
};

const Limited limited[] = {
    {"bench resnet", "--image", "31", "32", "4096", "4097", "--precision fp9", "fp9"},
    {"bench resnet", "--batch", "1", "2", "1048576", "1048577", "--precision fp9", "fp9"},
    {"bench resnet", "--threads", "-1", "0", "1024", "1025", "--precision fp9", "fp9"},
    {"bench resnet", "--steps", "0", "1", "1000000", "1000001", "--precision fp9", "fp9"},
    {"bench resnet", "--warmup", "0", "1", "1000000", "1000001", "--precision fp9", "fp9"},
    {"bench gemm", "--threads", "-1", "0", "1024", "1025", "--shapes 2x3", "2x3"},
    {"bench gemm", "--seconds", "-0.1", "0", "3600", "3600.1", "--shapes 2x3", "2x3"},
    {"compare", "--seeds", "1", "2", "100", "101", "--precisions fp9", "fp9"},
    {"plan", "--ranks", "0", "1", "4096", "4097", "--heads 3", "heads"},
    {"plan --ranks 2", "--per-node", "0", "1", "4096", "4097", "--heads 3", "heads"},
    {"plan --ranks 2", "--nvlink", "0.0009", "0.001", "1e6", "1.1e6", "--heads 3", "heads"},
    {"plan --ranks 2", "--nic", "0.0009", "0.001", "1e6", "1.1e6", "--heads 3", "heads"},
    {"tokenize train t", "--vocab", "260", "261", "1048576", "1048577", "--data no-such-text",
     "no-such-text"},
    {"generate", "--count", "0", "1", "1000000", "1000001", "no-such-run", "no-such-run"},
    {"eval", "--stride", "0", "1", "1048576", "1048577", "no-such-run", "no-such-run"},
};

TEST(Mistyped, LimitsAreTheLastValuesTaken) {
  for (const Limited& one : limited) {
    const auto with = [&one](const char* value) {
      return std::string(one.command) + " " + one.option + "=" + value + " " + one.next;
    };
    for (const char* value : {one.below, one.above}) {
      const Outcome outcome = binade(with(value));
      EXPECT_EQ(outcome.status, 2) << with(value);
      EXPECT_THAT(outcome.err, HasSubstr(std::string(one.option) + ": expected a")) << with(value);
      EXPECT_THAT(outcome.err, HasSubstr(std::string("from ") + one.lowest)) << with(value);
    }
    for (const char* value : {one.lowest, one.highest}) {
      const Outcome outcome = binade(with(value));
      EXPECT_EQ(outcome.status, 2) << with(value);
      EXPECT_THAT(outcome.err, HasSubstr(one.naming)) << with(value);
      EXPECT_THAT(outcome.err, Not(HasSubstr(std::string(one.option) + ":"))) << with(value);
    }
  }
}

// The names of other programs give the configuration that ours give.
TEST(Mistyped, NamesOfOtherProgramsAreTaken) {
  const Outcome ours = binade(
      "train --dry-run --lr 0.002 --batch 3 --steps 70 --context 32 --out x/y --accumulate 2 "
      "--warmup 5 --width 96 --layers 2 --heads 3 --clip 0.5");
  EXPECT_EQ(ours.status, 0) << ours.err;
  EXPECT_THAT(ours.out, HasSubstr("\nlr = 0.002\n"));
  const Outcome theirs = binade(
      "train --dry-run --learning-rate 0.002 --per_device_train_batch_size=3 --max-steps 70 "
      "--seq-len 32 --output x/y --gradient-accumulation-steps 2 --num-warmup-steps 5 --n_embd 96 "
      "--num-layers 2 --n-head=3 --max-grad-norm 0.5");
  EXPECT_EQ(theirs.out, ours.out);
  EXPECT_EQ(theirs.err, ours.err);
  EXPECT_THAT(binade("train --help").out, Not(HasSubstr("--learning-rate")));
  const std::string help = binade("train --help-all").out;
  const size_t at = help.find("--learning-rate");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(help.find("--learning-rate", at + 1), std::string::npos);
}

TEST(Mistyped, FarFetchedSuggestionsAreNone) {
  for (const char* line : {"train --frobnicate", "train -x", "train --xyz=3", "frobnicate",
                           "generate --no-such-thing", "info --q"}) {
    const Outcome outcome = binade(line);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_THAT(outcome.err, Not(HasSubstr("did you mean"))) << line;
    EXPECT_THAT(outcome.err, HasSubstr("--help'")) << line;
  }
}

TEST(Mistyped, HelpIsNeverRefused) {
  for (const char* line : {"train --help", "train --steps 3 --help", "generate -h",
                           "launch -n 2 --help", "tokenize --help", "help tokenize train"}) {
    const Outcome outcome = binade(line);
    EXPECT_EQ(outcome.status, 0) << line << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("Usage: ")) << line;
  }
}

TEST(Mistyped, WholeNumbersMayHaveAnExponent) {
  EXPECT_THAT(binade("train --dry-run --steps 1e3").out, HasSubstr("\nsteps = 1000\n"));
  EXPECT_THAT(binade("train --dry-run --steps 2.5e3").out, HasSubstr("\nsteps = 2500\n"));
}

TEST(Mistyped, ValuesMayLookLikeOptions) {
  EXPECT_EQ(binade("formats -1.5").status, 0);
  EXPECT_EQ(binade("formats -- -1.5").status, 0);
  EXPECT_THAT(binade("generate no-such-run --prompt --tokens").err, HasSubstr("no-such-run"));
  EXPECT_THAT(binade("generate no-such-run --prompt ''").err, HasSubstr("no-such-run"));
}

}  // namespace
}  // namespace binade::cli
