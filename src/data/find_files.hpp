// From the globs of a deck to the list of files.
#pragma once

#include <string>
#include <vector>

namespace pipefill {

/// The regular files that the patterns match, sorted bytewise by name. A file that is matched twice, by two patterns or
/// through a link, is listed once, by its first name. Directories are passed over. A pattern that matches no file is
/// FileError missing_input; one that names an existing file is taken as it stands, whatever characters it has.
std::vector<std::string> find_files(const std::vector<std::string>& patterns);

}  // namespace pipefill
