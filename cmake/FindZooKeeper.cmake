# ZooKeeper::MT: ZooKeeper's C client, the library with threads of its own. It comes without a .pc file.
find_path(ZooKeeper_INCLUDE_DIR zookeeper/zookeeper.h)
find_library(ZooKeeper_MT_LIBRARY zookeeper_mt)
mark_as_advanced(ZooKeeper_INCLUDE_DIR ZooKeeper_MT_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZooKeeper REQUIRED_VARS ZooKeeper_MT_LIBRARY ZooKeeper_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libzookeeper-mt-dev (dev/install-deps)")

if(ZooKeeper_FOUND AND NOT TARGET ZooKeeper::MT)
  find_package(Threads REQUIRED)
  add_library(ZooKeeper::MT UNKNOWN IMPORTED)
  # THREADED: the header declares the synchronous functions only then.
  set_target_properties(ZooKeeper::MT PROPERTIES
    IMPORTED_LOCATION "${ZooKeeper_MT_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ZooKeeper_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS THREADED
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
