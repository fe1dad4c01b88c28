foreach(noun deadline line_writer log_writer loop loop_ends timer_wheel watch worker_thread)
  rlb_unit_test(event/${noun} LINK rlb::event)
endforeach()
# They replace functions of the system, or the clocks.
rlb_unit_test(event/poller OWN_PROGRAM LINK rlb::event -Wl,--wrap=poll -Wl,--wrap=epoll_pwait -Wl,--wrap=epoll_ctl -Wl,--wrap=syscall)
rlb_unit_test(event/pause OWN_PROGRAM LINK rlb::event -Wl,--wrap=clock_mono_us)
rlb_unit_test(event/wall_clock OWN_PROGRAM LINK rlb::event -Wl,--wrap=clock_mono_us -Wl,--wrap=clock_wall_us)
set_tests_properties(unit.event.loop unit.event.loop_ends unit.event.poller unit.event.watch unit.event.worker_thread PROPERTIES LABELS "unit;thread")
