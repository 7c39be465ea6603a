#pragma once

#include <cmath>

#include "binade/train/report/run_summary.h"

// Runs for tests of their pages.
namespace binade::train {

inline RunSummary sample_run() {
  RunSummary run;
  run.parameters = 1234;
  run.sample = "if (a < b && c) return \"<script>\";";
  run.config.precision.matmul = Precision::fp16;
  for (int64_t i = 0; i <= 20; ++i) {
    Record r{.step = i,
             .loss = 5.0 / static_cast<double>(i + 1),
             .lr = 1e-3,
             .gradient_norm = 1,
             .scale = 65536,
             .tokens_per_second = 1000,
             .memory = 1'000'000,
             .seconds = static_cast<double>(i)};
    if (i % 10 == 0) r.validation_loss = r.loss;
    run.records.push_back(r);
  }
  run.memory.at_peak[0] = 500'000;
  // 20 steps of the default batch in 20 s.
  run.full_speed = 4 * static_cast<double>(run.config.train.batch * run.config.model.context);
  run.bytes_per_token = 2;
  run.origin = {.date = "2026-01-02 03:04 UTC",
                .version = "0.9.9",
                .command = "binade train --x",
                .machine = "Some CPU"};
  return run;
}

// A run whose numbers all differ, so that no two can stand for each other.
inline RunSummary distinct_run() {
  RunSummary run;
  run.name = "runs/a";
  run.parameters = 7'654'321;
  run.config.precision.matmul = Precision::fp16;
  run.config.model.family = ModelFamily::gpt2;
  run.config.model.layers = 3, run.config.model.width = 48, run.config.model.heads = 6,
  run.config.model.context = 24;
  run.config.train.accumulate = 5, run.config.train.batch = 7, run.config.train.steps = 4000;
  run.config.data.source = "some/text.txt";
  const double losses[] = {0, 4.5, 3.25, 2.125, 2.5};
  const double validations[] = {5.5, 4.75, 2.25, 1.5, 1.75};
  for (int64_t i = 0; i <= 4; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto x = static_cast<double>(i);
    run.records.push_back({.step = 1000 * i,
                           .loss = losses[at],
                           .validation_loss = validations[at],
                           .lr = 1e-3 * (5 - x),
                           .gradient_norm = 2 + x * x,
                           .scale = std::ldexp(1.0, static_cast<int>(10 + i)),
                           .skipped = 3 * i,
                           .tokens_per_second = 500 + 100 * x,
                           .memory = 2'000'000 + 1'000'000 * i,
                           .seconds = 210 * x,
                           .tokens = 840'000 * i});
  }
  for (size_t i = 0; i < run.memory.at_peak.size(); ++i)
    run.memory.at_peak[i] = static_cast<int64_t>(1'000'000 * (i + 1));
  run.full_speed = 10'000;
  run.bytes_per_token = 4;
  return run;
}

}  // namespace binade::train
