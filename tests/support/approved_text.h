#pragma once

#include <string>

namespace binade::test {

// Compares a text for people with one that a person has read and approved: the same words in the
// same order, broken into lines anywhere. A number may differ by `tolerance` of its size and by one
// in the last digit shown, because instruction sets add in different orders. Gives the first words
// that differ, "" if there are none.
std::string difference_from_approved(const std::string& text, const std::string& approved,
                                     double tolerance);

}  // namespace binade::test
