#include "binade/backend/audit/exchange.h"

#include "binade/backend/audit/session.h"
#include "binade/base/division.h"

namespace binade::backend {
namespace {

constexpr char kernel_name[] = "exchange";

TensorView view_of(std::span<const std::byte> bytes) {
  TensorView view;
  view.data = const_cast<std::byte*>(bytes.data());
  view.dtype = DType::u8;
  view.shape = {std::ssize(bytes)};
  view.strides = {1};
  view.present = true;
  return view;
}

}  // namespace

bool ExchangeAudit::is_on() { return audit::has_session() && audit::is_on(); }

ExchangeAudit::ExchangeAudit(int64_t number, int ranks)
    : number_(number), op_(audit_session().next_op++), ranks_(ranks) {
  ++audit_session().counts.kernels;
}

std::vector<ExchangeAudit::Piece> ExchangeAudit::chosen(int from, int to, int64_t bytes) const {
  std::vector<Piece> pieces;
  const int64_t pair = int64_t{from} * ranks_ + to;
  for (const int64_t index :
       audit::choose_of_exchange(number_, pair, divide_up(bytes, piece_bytes))) {
    const int64_t begin = index * piece_bytes;
    pieces.push_back(
        {static_cast<size_t>(begin), static_cast<size_t>(std::min(piece_bytes, bytes - begin))});
  }
  return pieces;
}

void ExchangeAudit::expect(int64_t bytes, size_t chosen) const {
  AuditCounts& counts = audit_session().counts;
  counts.pieces += divide_up(bytes, piece_bytes);
  counts.audited += static_cast<int64_t>(chosen);
}

void ExchangeAudit::arrived(std::span<std::byte> bytes) const {
  if (is_on() && audit_session().options.inject && !bytes.empty())
    audit_session().options.inject({kernel_name, op_, Device::cpu(), view_of(bytes)});
}

void ExchangeAudit::compare(const std::string& what, size_t begin, std::span<const std::byte> found,
                            std::span<const std::byte> again) const {
  if (!is_on()) return;  // it ended after its step
  audit::compare({kernel_name, op_, -1},
                 {what.c_str(), view_of(found), view_of(again), static_cast<int64_t>(begin), 0});
}

}  // namespace binade::backend
