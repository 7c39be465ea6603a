#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
    {"train --learning-rate 1e-3",
     "train: --learning-rate: expected a known option, found none of "
     "that name; did you mean --lr? See '"},
    {"train --epochs 3", "there are no epochs, --steps counts optimizer steps. See '"},
    {"train --num-train-epochs 3", "there are no epochs, --steps counts"},
    {"train --batch-size 8",
     "train: --batch-size: expected a known option, found none of that "
     "name; did you mean --batch?"},
    {"train --output runs/x", "did you mean --out?"},
    {"train --output_dir runs/x", "did you mean --out?"},
    {"train --max-steps=100",
     "train: --max-steps: expected a known option, found none of that "
     "name; did you mean --steps?"},
    {"train --block_size 64", "did you mean --context?"},
    {"train --gradient-accumulation-steps 4", "did you mean --accumulate?"},
    {"train --warmup-steps 4", "did you mean --warmup?"},
    {"train --save-steps 4", "did you mean --checkpoint-every?"},
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
    {"generate runs/1 --max-new-tokens 5", "did you mean --tokens?"},
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
    {"launch --nproc 2 train", "did you mean --ranks?"},
    {"launch -n x train", "launch: --ranks: expected a whole number from 1 to 4096, found 'x'"},
    {"launch -n 2 -n 3 train", "launch: -n: expected one value, found it given twice: '2' and '3'"},
    {"launch -n 2 train --learning-rate 3", "train: --learning-rate: expected"},
    {"tokenize", "tokenize: a command of its own: expected one of train, apply, found none"},
    {"tokenize trian", "There is no command 'trian'; did you mean 'train'? See '"},
    {"tokenize train --vocab-size 300 t.json",
     "tokenize train: --vocab-size: expected a known "
     "option, found none of that name; did you mean "
     "--vocab?"},
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

TEST(Mistyped, IsOneMessageInTheWordsAsTyped) {
  for (const auto& [line, message] : mistyped) {
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
