#include "binade/train/streams.h"

#include <memory>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/eval_mode.h"
#include "binade/train/sampled_text.h"

namespace binade::train {
namespace {

struct Stream {
  StreamRequest request;
  SampledText text;
  nn::KeyValueCache cache;

  Stream(StreamRequest asked, int64_t context)
      : request(std::move(asked)),
        text(request.prompt, request.options),
        cache(text.cache_size(context)) {}
};
using Streams = std::vector<std::unique_ptr<Stream>>;

// Adds a token to a stream. Returns whether the stream goes on.
bool grow(Stream& stream, std::vector<double> logits) {
  const int64_t token = stream.text.add(std::move(logits));
  const bool wanted = !stream.request.on_token || stream.request.on_token(token);
  return wanted && !stream.text.has_ended();
}

class StreamBatch {
 public:
  StreamBatch(nn::LanguageModel& model, int64_t at_once)
      : model_(model), at_once_(static_cast<size_t>(at_once)) {}

  bool has_room() const { return streams_.size() < at_once_; }
  bool empty() const { return streams_.empty(); }

  void add(StreamRequest request) {
    auto stream = std::make_unique<Stream>(std::move(request), context());
    if (stream->text.has_ended()) return end(*stream);  // no token was asked for
    streams_.push_back(std::move(stream));
  }

  // A token more for each stream: those that need one token alone share a forward.
  void step() {
    Streams going;
    std::vector<Stream*> together;
    std::vector<int64_t> tokens;
    std::vector<bool> goes_on(streams_.size());
    std::vector<size_t> places;
    for (size_t i = 0; i < streams_.size(); ++i) {
      Stream& stream = *streams_[i];
      const auto input = stream.text.next_input(context(), stream.cache);
      if (input.size() > 1) {
        goes_on[i] = grow(stream, after(input, stream));
      } else {
        tokens.push_back(input[0]);
        together.push_back(&stream);
        places.push_back(i);
      }
    }
    const std::vector<std::vector<double>> rows = after_each(tokens, together);
    for (size_t i = 0; i < rows.size(); ++i) goes_on[places[i]] = grow(*together[i], rows[i]);
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (goes_on[i]) {
        going.push_back(std::move(streams_[i]));
      } else {
        end(*streams_[i]);
      }
    }
    streams_ = std::move(going);
  }

 private:
  int64_t context() const { return model_.config().context; }
  Device device() const { return model_.head_weight().device(); }
  static void end(const Stream& stream) {
    if (stream.request.on_end) stream.request.on_end();
  }

  // The logits after a prompt, or after the half of a full context.
  std::vector<double> after(std::span<const int64_t> tokens, Stream& stream) {
    const auto length = static_cast<int64_t>(tokens.size());
    const Tensor logits = model_.logits(tensor(tokens, {1, length}, device()), stream.cache);
    return to_vector(slice(logits, 1, length - 1, length));
  }

  // The logits after the next token of each stream.
  std::vector<std::vector<double>> after_each(std::span<const int64_t> tokens,
                                              const std::vector<Stream*>& streams) {
    if (streams.empty()) return {};
    std::vector<nn::KeyValueCache*> caches;
    for (Stream* stream : streams) caches.push_back(&stream->cache);
    const auto count = static_cast<int64_t>(tokens.size());
    const Tensor logits = model_.logits(tensor(tokens, {count, 1}, device()), caches);
    std::vector<std::vector<double>> rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back(to_vector(slice(logits, 0, i, i + 1)));
    return rows;
  }

  nn::LanguageModel& model_;
  size_t at_once_;
  Streams streams_;
};

}  // namespace

void generate_streams(nn::LanguageModel& model, int64_t at_once,
                      const std::function<std::optional<StreamRequest>()>& next) {
  const NoGrad no_grad;
  const EvalMode eval_mode(model);
  StreamBatch batch(model, at_once);
  bool has_more = true;
  while (true) {
    while (has_more && batch.has_room()) {
      std::optional<StreamRequest> request = next();
      has_more = request.has_value();
      if (request) batch.add(std::move(*request));
    }
    if (batch.empty()) return;
    batch.step();
  }
}

}  // namespace binade::train
