// What the tests want of AddressSanitizer, also in the workers they start, whose environment is a fixed one. Linked
// into sanitized tests only.
extern "C" const char* __asan_default_options();

// A job over its limit of memory shall see malloc fail, as without the sanitizer, and not end the process.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
