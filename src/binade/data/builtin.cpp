#include "binade/data/corpus.h"

// The assembler embeds the file, so no source has to be generated and compiled.
asm(R"(
  .section .rodata
  .global binade_corpus_begin
  .global binade_corpus_end
  .balign 16
binade_corpus_begin:
  .incbin ")" BINADE_CORPUS_FILE R"("
binade_corpus_end:
  .byte 0
  .text
)");

extern "C" const char binade_corpus_begin[];
extern "C" const char binade_corpus_end[];

namespace binade::data {

std::string_view builtin_corpus() {
  return {binade_corpus_begin, static_cast<size_t>(binade_corpus_end - binade_corpus_begin)};
}

}  // namespace binade::data
