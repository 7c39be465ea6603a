#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/ranks/tcp/socket.h"

namespace binade::ranks::tcp {

// What a frame carries: the bytes of a collective, or a word between ranks beside them.
enum class Frame : int32_t {
  data,
  question,   // of a roll call: where do you stand?
  answer,     // to it
  complaint,  // a fault that the speaker of the ranks shall report
  stop,       // the sender ends all ranks
  bye,        // the sender needs nothing any more
};

// The collective that data belong to: its number, and the history of names up to it.
struct Label {
  int64_t number = 0;
  uint64_t history = 0;

  bool operator==(const Label&) const = default;
};

// Counts the messages of a collective that have not been sent or received whole.
using Transfer = std::shared_ptr<int>;

// A word of another rank.
struct Word {
  Frame kind = Frame::data;
  std::string text;
};

// Data that no collective of this rank expects.
struct Unexpected {
  Label label;
  int64_t bytes = 0;
};

// A connection to another rank, for messages in their order, of any length. Nothing blocks: write()
// and read() do what the connection allows now. Buffers stay the caller's until a transfer is
// complete.
class Channel {
 public:
  explicit Channel(Socket socket) : socket_(std::move(socket)) {}

  void send(const Label& label, std::span<const std::byte> bytes, const Transfer& transfer);
  void send_word(Frame kind, const std::string& text);
  void receive(const Label& label, std::span<std::byte> bytes, const Transfer& transfer);
  // The newest collective that this rank has begun; its receive() calls come before this one.
  void begun(const Label& newest);

  // For poll().
  int handle() const { return socket_.handle(); }
  bool is_open() const { return socket_.is_open(); }
  bool has_to_write() const { return !outgoing_.empty(); }
  void write();
  // Words come to the function, in their order.
  void read(const std::function<void(const Word&)>& hear);

  // Why the connection ended; empty: it has not, or no collective needs it. So the collective that
  // is reported is the first that the other rank took no part in.
  std::string fault() const;
  const Unexpected* unexpected() const { return wrong_ ? &*wrong_ : nullptr; }

 private:
  struct Header {
    uint32_t magic = 0x42494E44;
    Frame kind = Frame::data;
    Label label;
    int64_t bytes = 0;
  };
  struct Outgoing {
    Header header;
    std::string word;
    std::span<const std::byte> bytes;
    Transfer transfer;
    size_t sent = 0;
  };
  struct Expected {
    Label label;
    std::span<std::byte> bytes;
    Transfer transfer;
  };
  struct Early {
    Label label;
    std::vector<std::byte> bytes;
  };

  void end(std::string why);
  void drop_outgoing();
  ssize_t receive_some(std::span<std::byte> into);
  void begin_frame();
  void finish_frame(const std::function<void(const Word&)>& hear);
  bool matches_next(const Label& label, int64_t bytes);
  void complete_next();
  void deliver_early();

  Socket socket_;
  std::deque<Outgoing> outgoing_;
  std::deque<Expected> expected_;
  std::deque<Early> early_;  // arrived before this rank began their collectives
  Label newest_;
  Header header_;
  size_t header_bytes_ = 0;
  std::span<std::byte> rest_;                // of the frame that is being read
  std::vector<std::byte> own_bytes_;         // of a word, or early
  bool is_early_ = false, is_next_ = false;  // what is being read: data for later, or for now
  bool said_bye_ = false;
  bool has_unsent_ = false;  // data that the other rank has not got and never will
  std::string ended_;
  std::optional<Unexpected> wrong_;
};

}  // namespace binade::ranks::tcp
