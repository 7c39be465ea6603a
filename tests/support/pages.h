#pragma once

#include <string>
#include <vector>

namespace binade::test {

// What keeps an HTML page from being one file that asks for nothing: addresses of hosts, files it
// would load, and any script but a single one without attributes. Empty if the page is such a file.
std::vector<std::string> outside_references(const std::string& html);

}  // namespace binade::test
