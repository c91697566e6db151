# understudy_system_test(<name> "<machine flags>" <command> [<argument>...])
#
# Registers a test that runs the command on a simulated machine, e.g.
#   understudy_system_test(vmem_on_gpu "--gpu gfx90a:2" $<TARGET_FILE:vmem_api_test>)
# The command's exit status is the test's, and so is what it leaves behind: leaks and double closes fail it. Needs the
# understudy program in the same build.
function(understudy_system_test name machine)
  if(NOT TARGET understudy)
    return()
  endif()
  separate_arguments(flags UNIX_COMMAND "${machine}")
  add_test(NAME system.${name} COMMAND $<TARGET_FILE:understudy> run --fail-on leak,double-destroy ${flags} -- ${ARGN})
  set_tests_properties(system.${name} PROPERTIES LABELS system TIMEOUT 300)
endfunction()
