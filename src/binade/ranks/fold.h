#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "binade/ranks/communicator.h"
#include "binade/ranks/partition.h"
#include "binade/ranks/reduce_order.h"

namespace binade::ranks {

// Sums the gradients of micro-batches in their order, whatever rank computed them, each as a
// backward of its own would leave it. A kernel that accumulated into the sum directly would add its
// terms one by one instead. So the sum has the same bits for any number of ranks. A round is one
// micro-batch of each rank.
//
// A rank alone keeps one set of gradients: those of the first round become the sums where they are,
// and later ones are added and released as soon as they are complete.
class Fold {
 public:
  struct Options {
    DType wire = DType::f32;  // f16 or bf16: each gradient is rounded once before it is sent
    // `any`: the library's own reduction of each round. Its sums depend on the number of ranks.
    ReduceOrder order = ReduceOrder::fixed;
  };

  // `ranks` are those of the parameters' device.
  Fold(std::shared_ptr<Communicator> ranks, const Partition& partition,
       std::vector<Tensor> parameters, const Options& options);

  // The sums of the elements this rank owns, f32, one tensor for each parameter. None for a rank
  // alone, whose sums are the parameters' gradients.
  std::vector<Tensor> sums() const;

  // Starts a round in which ranks 0 to `leaves` - 1 have a micro-batch.
  void begin_round(bool is_first, int leaves);
  // The gradient of a parameter is complete. Buckets travel once all of theirs are, in a fixed
  // order.
  void note_finished(size_t parameter);
  // All gradients of the first `buckets` buckets are complete. Instead of note_finished(), for
  // ranks whose other collectives must come in the same order on those without a micro-batch.
  void send_up_to(size_t buckets);
  // Sends all that is left and ends the round. A rank without a micro-batch calls it alone.
  void end_round();
  // After the last round.
  void finish();

 private:
  void send_ready();
  void send(size_t bucket);
  // Waits for the bucket under way and adds its gradients.
  void add_arrived();
  void pack(const Bucket& bucket);
  bool is_alone() const { return data_.is_alone(); }
  // Of a rank alone: moves the first gradients, so that later ones get buffers of their own.
  void keep_first();
  // Of a rank alone: adds the gradient of a parameter, unless it is the first.
  void add_own(size_t parameter);

  std::shared_ptr<Communicator> ranks_;
  Place data_;
  const Partition& partition_;
  std::vector<Tensor> parameters_;
  Options options_;
  std::vector<Tensor> sums_;    // of each bucket; alone: of each parameter, undefined at first
  Tensor outgoing_, incoming_;  // a bucket's, in the type on the wire
  std::vector<int64_t> send_counts_, receive_counts_;
  std::vector<size_t> bucket_of_;  // of each parameter
  std::vector<size_t> missing_;    // of each bucket: gradients that are not complete
  size_t next_ = 0;                // bucket to send
  bool is_first_ = true;
  int leaves_ = 0;
  std::optional<size_t> under_way_;  // bucket
  Communicator::Pending pending_;
};

}  // namespace binade::ranks
