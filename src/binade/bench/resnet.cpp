#include "binade/bench/resnet.h"

#include <fmt/format.h>

#include <optional>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/base/error.h"
#include "binade/bench/machine.h"
#include "binade/nn/resnet.h"
#include "binade/ops/create/create.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/sgd.h"
#include "binade/train/machine.h"
#include "binade/train/step_graph.h"

namespace binade::bench {
namespace {

using train::Precision;

constexpr int64_t classes = 1000;

void check_precision(Precision precision) {
  if (precision != Precision::quantized && precision != Precision::tf32) return;
  fail("bench resnet", {.argument = "precision",
                        .expected = "fp32, bf16 or fp16",
                        .found = std::string(train::name(precision)),
                        .hint = "convolutions do not run by a recipe or in TF32"});
}

// A training step on a batch that stays on the device, with the settings of torchvision's
// reference training.
class ResNetStepper {
 public:
  ResNetStepper(const ResNetBench& bench, Precision precision)
      : precision_(precision),
        model_(nn::resnet_config(bench.depth), bench.device),
        optimizer_(model_.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4}),
        scaler_({.enabled = precision == Precision::fp16, .device = bench.device}),
        // Channels-last, which only GPUs have kernels for.
        images_(channels_last(
            randn({bench.batch, 3, bench.image, bench.image}, {1, 0}, DType::f32, bench.device))),
        labels_(randint(0, classes, {bench.batch}, {1, 1}, bench.device)),
        graph_(backend::capabilities(bench.device).has_graphs ? train::GraphMode::on
                                                              : train::GraphMode::off,
               bench.device) {}

  void step() {
    if (!graph_.replays_next()) {
      graph_.run([this] { launch(); });
      return;
    }
    if (!graph_.captured()) {
      const optim::Optimizer::Capture capture(optimizer_);
      graph_.capture([this] { launch(); });
    }
    optimizer_.prepare_replay();
    graph_.replay();
    scaler_.note_run();
  }

  // Loss of the last step.
  double loss() const { return loss_.item(); }

 private:
  void launch() {
    optimizer_.zero_grad();
    const Tensor loss = forward();
    scaler_.scale(loss).backward();
    scaler_.step(optimizer_);
    scaler_.update();
    loss_ = loss.detach();
  }

  Tensor forward() {
    std::optional<amp::Autocast> cast;
    if (precision_ == Precision::bf16) cast.emplace(DType::bf16);
    if (precision_ == Precision::fp16) cast.emplace(DType::f16);
    return cross_entropy(model_(images_), labels_);
  }

  Precision precision_;
  nn::ResNet model_;
  optim::SGD optimizer_;
  amp::GradScaler scaler_;
  Tensor images_, labels_, loss_;
  train::StepGraph graph_;
};

void write(json::Writer& out, const ResNetTiming& f) {
  out.begin_object().key("precision").value(train::name(f.precision));
  write_number(out, "images_per_second", f.images_per_second);
  write_number(out, "best_images_per_second", f.best_images_per_second);
  write_number(out, "tflops", f.flops / 1e12);
  write_number(out, "share_of_peak", f.share_of_peak);
  write_cost(out, f.cost);
  if (f.cost.joules)
    write_number(out, "joules_per_image",
                 *f.cost.joules / (f.images_per_second * f.cost.step_seconds));
  write_number(out, "loss", f.loss);
  out.end_object();
}

}  // namespace

double flops_per_image(const ResNetBench& bench) {
  nn::ResNet model(nn::resnet_config(bench.depth), Device::meta());
  constexpr int64_t images = 2;  // batch norm refuses one value per channel
  double forward = 0, first = 0;
  for (const auto& named : model.named_modules()) {
    auto* layer = dynamic_cast<nn::Layer*>(named.second);
    Tensor weight;
    if (const auto* conv = dynamic_cast<nn::Conv2d*>(named.second)) weight = conv->weight;
    if (const auto* linear = dynamic_cast<nn::Linear*>(named.second)) weight = linear->weight;
    if (!weight.defined()) continue;
    const bool is_first = named.first == "conv1";
    layer->register_forward_hook(
        [&, weight, is_first](nn::Layer&, const Tensor&, const Tensor& output) {
          // Two per output and weight of one output channel.
          const int64_t weights = weight.numel() / weight.size(0);
          const double operations =
              2.0 * static_cast<double>(output.numel()) * static_cast<double>(weights);
          forward += operations;
          if (is_first) first = operations;
          return Tensor();
        });
  }
  const NoGrad no_grad;
  model(Tensor::empty({images, 3, bench.image, bench.image}, DType::f32, Device::meta()));
  // Gradients of weights and of inputs cost as much each; images have none.
  return (3 * forward - first) / images;
}

ResNetTiming bench_resnet(const ResNetBench& bench, Precision precision) {
  check_precision(precision);
  backend::of(bench.device);  // fails if this build does not support the device
  const double peak = train::instruction_peak(bench.device, precision);
  memory::release_cached(bench.device);
  const double start = bench_clock();
  ResNetStepper stepper(bench, precision);
  const Step step = [&stepper] { stepper.step(); };
  ResNetTiming result{.precision = precision,
                      .cost = measure_steps(bench.device, bench.options, start, step)};
  const auto images = static_cast<double>(bench.batch);
  result.images_per_second = images / result.cost.step_seconds;
  result.best_images_per_second = images / result.cost.best_step_seconds;
  result.flops = flops_per_image(bench) * result.images_per_second;
  result.share_of_peak = peak > 0 ? result.flops / peak : 0;
  result.loss = stepper.loss();
  profile_steps(bench.device, bench.options, step, result.cost);
  return result;
}

std::string to_table(const ResNetBench& bench, const std::vector<ResNetTiming>& timings) {
  std::string text = fmt::format("ResNet-{}, batch {} of {} x {} pixels; {}\n", bench.depth,
                                 bench.batch, bench.image, bench.image, device_text(bench.device));
  text += fmt::format("{:<9} {:>10} {:>10} {:>9} {:>9} {:>8} {:>7} {:>9} {:>7} {:>8}\n",
                      "precision", "images/s", "best", "step ms", "best", "TFLOP/s", "peak",
                      "first s", "misses", "loss");
  std::vector<NamedCost> costs;
  for (const ResNetTiming& f : timings) {
    const std::string_view name = train::name(f.precision);
    costs.emplace_back(name, &f.cost);
    text += fmt::format(
        "{:<9} {:>10.2f} {:>10.2f} {:>9.2f} {:>9.2f} {:>8.3f} {:>6.1f}% {:>9.3f} {:>7} {:>8.4f}\n",
        name, f.images_per_second, f.best_images_per_second, f.cost.step_seconds * 1e3,
        f.cost.best_step_seconds * 1e3, f.flops / 1e12, f.share_of_peak * 100,
        f.cost.first_step_since_model, f.cost.misses, f.loss);
  }
  return text + work_table(costs) + memory_table(costs);
}

std::string to_json(const ResNetBench& bench, const std::vector<ResNetTiming>& timings) {
  json::Writer out(2);
  out.begin_object().key("bench").value("resnet");
  out.key("device").value(device_text(bench.device)).key("depth").value(bench.depth);
  out.key("batch").value(bench.batch).key("image").value(bench.image);
  out.key("flops_per_image").value(flops_per_image(bench)).key("results").begin_array();
  for (const ResNetTiming& f : timings) write(out, f);
  return out.end_array().end_object().text();
}

}  // namespace binade::bench
