#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/amp/recipe/text.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/lab/sweep.h"
#include "binade/train/config/component_options.h"
#include "binade/train/report/html_page.h"

namespace binade::lab {
namespace {

std::string loss_text(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "diverged";
}

std::string percent_text(double fraction) {
  return std::isfinite(fraction) ? signed_percent(fraction) : "diverged";
}

// One sentence each.
std::vector<std::string> summary(const Sweep& sweep) {
  const auto excess = [&](double loss) { return percent_text(loss / sweep.bf16 - 1); };
  std::vector<std::string> sentences = {
      fmt::format("The loss is {} in bf16 and {} ({}) in fp8.", loss_text(sweep.bf16),
                  loss_text(sweep.fp8), excess(sweep.fp8)),
      fmt::format("Differences of up to {:.2f}% are noise.", 100 * sweep.noise)};
  const size_t moved = sweep.plan().layers.size();
  if (moved > 0) {
    sentences.push_back(fmt::format("With {} of the layers in bf16 it is {} ({}).", moved,
                                    loss_text(sweep.planned_loss()), excess(sweep.planned_loss())));
  } else if (!sweep.interrupted) {
    sentences.push_back("No move of a layer to bf16 lowers the loss by more.");
  }
  if (sweep.interrupted)
    sentences.push_back("The sweep was interrupted: other layers or moves were not tried.");
  return sentences;
}

}  // namespace

std::string sweep_text(const Sweep& sweep) {
  size_t width = 12;
  for (const Sweep::Unit& unit : sweep.ranked) width = std::max(width, name(unit).size());
  std::string text =
      fmt::format("{:<{}}  {:>9}  {:>9}\n", "alone in FP8", width, "loss", "vs bf16");
  for (const Sweep::Unit& unit : sweep.ranked)
    text += fmt::format("{:<{}}  {:>9}  {:>9}\n", name(unit), width, loss_text(unit.loss),
                        percent_text(unit.excess));
  if (!sweep.moves.empty()) {
    text += fmt::format("\n{:<{}}  {:>9}  {:>9}\n", "also in bf16", width, "loss", "move");
    for (const Sweep::Move& move : sweep.moves)
      text += fmt::format("{:<{}}  {:>9}  {:>9}\n", name(move.unit), width, loss_text(move.loss),
                          move.kept ? "kept" : "undone");
  }
  return text + fmt::format("\n{}\n", fmt::join(summary(sweep), "\n"));
}

std::string sweep_json(const Sweep& sweep) {
  json::Writer out(2);
  const auto number = [&out](double value) {
    std::isfinite(value) ? out.value(value) : out.value(nullptr);
  };
  out.begin_object().key("bf16");
  number(sweep.bf16);
  out.key("fp8");
  number(sweep.fp8);
  out.key("noise");
  number(sweep.noise);
  out.key("ranked").begin_array();
  for (const Sweep::Unit& unit : sweep.ranked) {
    out.begin_object().key("unit").value(name(unit)).key("loss");
    number(unit.loss);
    out.key("excess");
    number(unit.excess);
    out.end_object();
  }
  out.end_array().key("moves").begin_array();
  for (const Sweep::Move& move : sweep.moves) {
    out.begin_object().key("unit").value(name(move.unit)).key("loss");
    number(move.loss);
    out.key("kept").value(move.kept).end_object();
  }
  out.end_array().end_object();
  return out.text() + "\n";
}

std::string sweep_html(const Sweep& sweep) {
  using train::escaped;
  const train::Config& config = sweep.config;
  std::string body =
      train::facts({{"model", fmt::format("{} layer{} of width {}", config.model.layers,
                                          config.model.layers == 1 ? "" : "s", config.model.width)},
                    {"steps", fmt::format("{}", config.train.steps)},
                    {"recipe", amp::to_text(config.precision.recipe)}});
  body +=
      "<p>Short runs from the same weights on the same batches. A loss is the mean of the last "
      "half of the steps.</p>\n";
  body += fmt::format("<p class=\"conclusion\">{}</p>\n",
                      escaped(fmt::format("{}", fmt::join(summary(sweep), " "))));
  std::vector<train::Bar> bars;
  train::Table ranking{.header = {"alone in FP8", "loss", "vs bf16"}};
  for (const Sweep::Unit& unit : sweep.ranked) {
    ranking.rows.push_back({escaped(name(unit)), loss_text(unit.loss), percent_text(unit.excess)});
    // Bars have no negative side; what is below bf16 is noise.
    const double excess = std::isfinite(unit.excess) ? std::max(unit.excess, 0.0) : 1;
    bars.push_back({name(unit), excess, percent_text(unit.excess), train::format_style("fp8")});
  }
  body += train::bar_chart("Excess of the loss over bf16, one layer in FP8", bars);
  body += train::to_html(ranking);
  if (!sweep.moves.empty()) {
    train::Table moves{.header = {"also in bf16", "loss", "move"}};
    for (const Sweep::Move& move : sweep.moves)
      moves.rows.push_back(
          {escaped(name(move.unit)), loss_text(move.loss), move.kept ? "kept" : "undone"});
    body += "<h2>All layers in FP8, moved to bf16 one by one</h2>\n" + train::to_html(moves);
  }
  return train::page("Sensitivity to FP8 by layer", body);
}

}  // namespace binade::lab
