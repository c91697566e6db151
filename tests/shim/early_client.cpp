// A program that asks its library whether the device worked at the library's own initialisation.
bool early_library_worked();

int main() {
  return early_library_worked() ? 0 : 1;
}
