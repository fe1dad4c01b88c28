foreach(noun deadline loop loop_ends timer_wheel watch)
  rlb_unit_test(event/${noun} LINK rlb::event)
endforeach()
# They replace functions, of the system or of the library.
rlb_unit_test(event/loop_library OWN_PROGRAM LINK rlb::event)
rlb_unit_test(event/poller OWN_PROGRAM LINK rlb::event -Wl,--wrap=poll -Wl,--wrap=epoll_pwait -Wl,--wrap=syscall)
set_tests_properties(unit.event.loop unit.event.loop_ends unit.event.loop_library unit.event.poller unit.event.watch PROPERTIES LABELS "unit;thread")
