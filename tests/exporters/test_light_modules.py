import pkgutil
import subprocess
import sys

import exporters

HEAVY = {"tensorflow", "tf_slim", "tf_keras", "keras", "matplotlib", "requests", "rich", "PIL"}


def test_no_module_of_the_package_loads_tensorflow_when_imported():
    modules = [module.name for module in pkgutil.walk_packages(exporters.__path__, "exporters.")]
    assert len(modules) > 25
    code = (
        f"import sys, {', '.join(modules)}\n"
        f"loaded = {HEAVY!r} & sys.modules.keys()\n"
        "sys.exit(repr(loaded) if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_package_alone_loads_nothing():
    code = (
        "import sys, exporters\n"
        "assert 'convert' in dir(exporters) and 'numpy' not in sys.modules\n"
        "try:\n"
        "    exporters.nothing\n"
        "except AttributeError as error:\n"
        "    assert 'nothing' in str(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_name_that_is_offered_is_there():
    for name in exporters.__all__:
        assert callable(getattr(exporters, name))
